package plan_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/release"
	"github.com/liveconfig-csi/liveconfig/pkg/release/plan"
)

// TestPodsThatProveNothing: those without the candidate, those that were not Ready before, new
// ones, and all if nothing is to be checked.
func TestPodsThatProveNothing(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		annotation string
		spoil      func(w *world, p *plan.Pod, isShown bool)
		isEarly    bool // Before the edit.
	}{
		"without the candidate": {"{steps: [1]}", func(w *world, p *plan.Pod, isShown bool) { p.IsReady = isShown }, false},
		"never Ready":           {"{steps: [50%]}", func(w *world, p *plan.Pod, _ bool) { p.IsReady, p.Changed = false, w.unit.Now }, true},
		"new": {"{steps: [100%]}", func(w *world, p *plan.Pod, _ bool) {
			p.UID, p.IsReady, p.Created, p.Changed = p.UID+"-new", false, w.unit.Now, w.unit.Now
		}, false},
		"not checked": {"{steps: [50%], check: none}", func(w *world, p *plan.Pod, _ bool) { p.IsReady = false }, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 10, tc.annotation, web)
			spoil := func() {
				shown := map[string]bool{}
				for _, p := range plan.Exposed(w.unit) {
					shown[p.UID] = true
				}
				for i := range w.unit.Pods {
					tc.spoil(w, &w.unit.Pods[i], shown[w.unit.Pods[i].UID])
				}
			}
			if tc.isEarly {
				spoil()
			}
			w.edit(web, "2")
			w.do()
			if !tc.isEarly {
				spoil()
			}
			w.pass(time.Second).do()
			w.pass(30 * time.Second).do()
			w.wantStable("2")
		})
	}
}

// TestAControllerThatStartsMeanwhile goes by the clock of the nodes.
func TestAControllerThatStartsMeanwhile(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		spoil func(p *plan.Pod, now time.Time)
		state release.State
	}{
		"not Ready since":     {func(p *plan.Pod, now time.Time) { p.IsReady, p.Changed = false, now.Truncate(time.Second) }, release.Reverted},
		"restarted since":     {func(p *plan.Pod, now time.Time) { p.Restarts, p.Ended = 3, now.Truncate(time.Second) }, release.Reverted},
		"not Ready long ago":  {func(p *plan.Pod, now time.Time) { p.IsReady, p.Changed = false, now.Add(-time.Minute) }, release.Progressing},
		"restarted long ago":  {func(p *plan.Pod, now time.Time) { p.Restarts, p.Ended = 3, now.Add(-time.Minute) }, release.Progressing},
		"a new one not Ready": {func(p *plan.Pod, now time.Time) { p.IsReady, p.Created, p.Changed = false, now, now }, release.Progressing},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEdited(t, 1, "{steps: [1]}", web)
			w.do()
			w.seen = map[string]*plan.Seen{}
			tc.spoil(&w.unit.Pods[0], w.unit.Now.Add(300*time.Millisecond))
			w.do()
			w.wantShown(map[release.State]int{release.Progressing: 1}[tc.state], tc.state)
		})
	}
}

// TestNewPodsGetTheirShare, and not more, however few pods there were.
func TestNewPodsGetTheirShare(t *testing.T) {
	t.Parallel()
	w := newEdited(t, 1, "{steps: [5%]}", web)
	w.do()
	w.wantShown(1, release.Progressing)
	for i := range 200 {
		w.unit.Pods = append(w.unit.Pods, plan.Pod{Name: fmt.Sprint("new-", i), UID: fmt.Sprint("uid-new-", i), Created: w.unit.Now})
	}
	if got := len(plan.Exposed(w.unit)); got < 2 || got > 25 {
		t.Errorf("%d of 201 pods have the candidate, want about 5%%", got)
	}
}

// TestReplacedPods: if none of the pods is left that had the edit, the step begins again.
func TestReplacedPods(t *testing.T) {
	t.Parallel()
	w := newEdited(t, 4, "{steps: [1], pause: 10s}", web)
	w.do()
	for i := range w.unit.Pods {
		w.unit.Pods[i].UID += "-new"
	}
	w.pass(10 * time.Second).do()
	w.wantShown(1, release.Progressing)
	w.pass(9 * time.Second).do()
	w.wantShown(1, release.Progressing)
	w.pass(time.Second).do()
	w.wantStable("2")
}

// TestPodsThatShareFiles have an edit together.
func TestPodsThatShareFiles(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 20, "{steps: [1, 50%], pause: 10s}", web)
	for i := range w.unit.Pods {
		w.unit.Pods[i].SharesWith = fmt.Sprint("node-", i/5)
	}
	w.edit(web, "2")
	for _, want := range []int{10, 20} { // They are too many for the first step, and some for each but the last.
		w.do()
		w.wantShown(want, release.Progressing)
		nodes := map[string]int{}
		for _, p := range plan.Exposed(w.unit) {
			nodes[p.SharesWith]++
		}
		for node, count := range nodes {
			if count != 5 {
				t.Errorf("%d pods of %s have the edit, want all 5 or none", count, node)
			}
		}
		w.pass(9 * time.Second).do()
		w.wantShown(want, release.Progressing)
		w.pass(time.Second)
	}
	w.do()
	w.wantStable("2")
}

// TestAFixForCrashingPods is no failure because they crash, which they did before.
func TestAFixForCrashingPods(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 10, "{steps: [100%]}", web)
	for i := range w.unit.Pods {
		w.unit.Pods[i].IsReady, w.unit.Pods[i].Restarts = false, 7
	}
	w.edit(web, "2")
	w.do()
	for i := range w.unit.Pods {
		w.unit.Pods[i].Restarts = 8
	}
	w.pass(time.Second).do()
	w.wantShown(10, release.Progressing)
	for i := range w.unit.Pods {
		w.unit.Pods[i].IsReady, w.unit.Pods[i].Changed = true, w.unit.Now
	}
	w.pass(time.Second).do()
	w.wantShown(10, release.Progressing)
	w.unit.Pods[3].Restarts = 9
	w.do()
	w.wantShown(0, release.Reverted)
}

// TestAPodThatFails for good is a failure, although it runs no more.
func TestAPodThatFails(t *testing.T) {
	t.Parallel()
	w := newEdited(t, 2, "{steps: [1]}", web)
	w.do()
	w.spoilOne(func(p *plan.Pod) { p.HasFailed, p.IsReady, p.Changed = true, false, w.unit.Now })
	w.do()
	w.wantShown(0, release.Reverted)
}

// TestANewPodThatCrashes has only ever had the edit, so its crash counts: in the step in which it
// came, and in each later one.
func TestANewPodThatCrashes(t *testing.T) {
	t.Parallel()
	for name, later := range map[string]time.Duration{"in the step": time.Second, "in the next step": 10 * time.Second, "in the one after": 20 * time.Second} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEdited(t, 10, "{steps: [50%, 60%, 70%], pause: 10s}", web)
			w.do()
			w.pass(2 * time.Second)
			w.spoilOne(func(p *plan.Pod) { // A new pod, in the same place.
				p.Name, p.IsReady, p.Created, p.Changed = "new", false, w.unit.Now, w.unit.Now
				w.seen[p.UID] = nil
			})
			for range later / time.Second {
				w.pass(time.Second).do()
			}
			w.pass(time.Second).do()
			for i := range w.unit.Pods {
				if w.unit.Pods[i].Name == "new" {
					w.unit.Pods[i].Restarts, w.unit.Pods[i].Ended = 1, w.unit.Now
				}
			}
			w.do()
			w.wantShown(0, release.Reverted)
		})
	}
}
