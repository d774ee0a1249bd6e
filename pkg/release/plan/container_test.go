package plan_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/release"
	"github.com/liveconfig-csi/liveconfig/pkg/release/plan"
)

// end has a container of a pod end, as a kubelet reports it, and the pod be no longer Ready.
func end(name string, code int) func(*plan.Pod, time.Time) {
	return func(p *plan.Pod, now time.Time) {
		p.IsReady, p.Changed = false, now.Truncate(time.Second)
		for i := range p.Containers {
			if c := &p.Containers[i]; c.Name == name {
				c.Ended, c.ExitCode = now.Truncate(time.Second), code
			}
		}
	}
}

// again has a container start again.
func again(name string) func(*plan.Pod, time.Time) {
	return func(p *plan.Pod, _ time.Time) {
		for i := range p.Containers {
			if c := &p.Containers[i]; c.Name == name {
				c.Restarts++
				p.Restarts++
				p.Ended = c.Ended
			}
		}
	}
}

func ready(p *plan.Pod, now time.Time)    { p.IsReady, p.Changed = true, now.Truncate(time.Second) }
func notReady(p *plan.Pod, now time.Time) { p.IsReady, p.Changed = false, now.Truncate(time.Second) }

// unseen is a restart whose end the kubelet does not report.
func unseen(p *plan.Pod, _ time.Time) { p.Restarts++; p.Containers[0].Restarts++ }

// TestAProgramThatExits with 0, to be started with the new configuration, is no failure if its pod is Ready again in time. All
// other ends are.
func TestAProgramThatExits(t *testing.T) {
	t.Parallel()
	type change = func(*plan.Pod, time.Time)
	both := func(a, b change) change { return func(p *plan.Pod, now time.Time) { a(p, now); b(p, now) } }
	tests := map[string]struct {
		changes []change // One each two seconds.
		fails   bool     // At the last of them, and not before.
	}{
		"it is Ready again":                 {[]change{end("a", 0), again("a"), ready}, false},
		"in no time":                        {[]change{both(end("a", 0), both(again("a"), ready))}, false},
		"each container once":               {[]change{end("a", 0), again("a"), ready, end("b", 0), again("b"), ready}, false},
		"two containers at once":            {[]change{both(end("a", 0), end("b", 0)), both(again("a"), again("b")), ready}, false},
		"twice":                             {[]change{end("a", 0), again("a"), ready, end("a", 0)}, true},
		"twice in no time":                  {[]change{both(end("a", 0), both(again("a"), both(again("a"), ready)))}, true},
		"Ready for a moment":                {[]change{end("a", 0), again("a"), ready, notReady}, true},
		"not Ready between":                 {[]change{end("a", 0), again("a"), ready, both(notReady, ready)}, true},
		"a crash":                           {[]change{end("a", 3)}, true},
		"a crash of another container":      {[]change{end("a", 0), end("b", 1)}, true},
		"a crash after it":                  {[]change{end("a", 0), again("a"), ready, end("a", 1)}, true},
		"a crash before it is Ready":        {[]change{end("a", 0), again("a"), end("a", 1)}, true},
		"a restart without an end":          {[]change{unseen}, true},
		"a restart without an end after it": {[]change{end("a", 0), again("a"), unseen}, true},
	}
	for name, tc := range tests {
		for _, restarts := range []int{0, 2} { // Before the edit.
			t.Run(fmt.Sprint(name, ", ", restarts, " restarts before"), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, 10, "{steps: [1], pause: 30s}", web)
				for i := range w.unit.Pods {
					p := &w.unit.Pods[i]
					p.Containers = []plan.Container{{Name: "a"}, {Name: "b", Restarts: restarts}}
					if p.Restarts = restarts; restarts > 0 {
						p.Ended = start.Add(-time.Hour)
						p.Containers[1].Ended, p.Containers[1].ExitCode = p.Ended, 1
					}
				}
				w.edit(web, "2")
				w.do()
				for i, change := range tc.changes {
					w.pass(2 * time.Second)
					w.spoilOne(func(p *plan.Pod) { change(p, w.unit.Now) })
					w.do()
					if isLast := i == len(tc.changes)-1; isLast && tc.fails {
						w.wantShown(0, release.Reverted)
						return
					}
					w.wantShown(1, release.Progressing)
				}
				w.pass(30 * time.Second).do()
				w.wantStable("2")
			})
		}
	}
}

// TestAProgramThatDoesNotComeBack takes the edit back a pause after it has ended, and no time
// before that ends the step.
func TestAProgramThatDoesNotComeBack(t *testing.T) {
	t.Parallel()
	for name, isForgotten := range map[string]bool{"seen": false, "after a restart of the controller": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 10, "{steps: [1], pause: 30s}", web)
			for i := range w.unit.Pods {
				w.unit.Pods[i].Containers = []plan.Container{{Name: "a"}}
			}
			w.edit(web, "2")
			w.do()
			w.pass(20 * time.Second)
			w.spoilOne(func(p *plan.Pod) { end("a", 0)(p, w.unit.Now); again("a")(p, w.unit.Now) })
			if isForgotten {
				w.seen = nil
			}
			for range 29 {
				w.do()
				w.wantShown(1, release.Progressing)
				if isForgotten {
					w.seen = nil
				}
				w.pass(time.Second)
			}
			w.pass(time.Second).do()
			w.wantShown(0, release.Reverted)
			if reason := w.unit.Objects[0].Exposure.Reason; reason == "" {
				t.Error("there is no reason")
			}
		})
	}
}

// TestACrashByTheClock: a controller that has started since goes by the exit codes too.
func TestACrashByTheClock(t *testing.T) {
	t.Parallel()
	for code, state := range map[int]release.State{0: release.Progressing, 1: release.Reverted} {
		w := newWorld(t, 1, "{steps: [1]}", web)
		w.unit.Pods[0].Containers = []plan.Container{{Name: "a"}}
		w.edit(web, "2")
		w.do()
		w.pass(time.Second)
		w.spoilOne(func(p *plan.Pod) { end("a", code)(p, w.unit.Now); again("a")(p, w.unit.Now); ready(p, w.unit.Now) })
		w.seen = nil
		w.do()
		w.wantShown(map[release.State]int{release.Progressing: 1}[state], state)
	}
}
