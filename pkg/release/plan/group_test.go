package plan_test

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/release"
	"github.com/liveconfig-csi/liveconfig/pkg/release/plan"
)

// TestGroup: objects that are released together wait for each other, and a controller that is
// killed between any two writes goes on.
func TestGroup(t *testing.T) {
	t.Parallel()
	const tls = "secret/tls"
	for killed := range 12 {
		t.Run(fmt.Sprint("killed after write ", killed), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 8, "{group: g, steps: [1, 50%], pause: 10s}", web, tls)
			w.edit(web, "2")
			if after := w.do(); after != 2*time.Second {
				t.Errorf("it looks again after %s, want the quiet period", after)
			}
			w.pass(time.Second)
			w.edit(tls, "2")
			w.pass(2 * time.Second)
			writes := 0
			for range 40 {
				d := w.decide()
				if d.Action == plan.Rest {
					if w.unit.Objects[0].Stable == "2" && w.unit.Objects[1].Stable == "2" {
						break
					}
					w.pass(max(d.After, time.Millisecond))
					continue
				}
				for _, name := range d.Names {
					if writes++; writes == killed {
						break // The next controller finds what was written until here.
					}
					w.act(name, d)
					w.wantTogether()
				}
			}
			w.wantStable("2")
		})
	}
}

// wantTogether checks that no pod has the candidate of one object without that of the other, by the
// rule that drivers follow.
func (w *world) wantTogether() {
	w.Helper()
	a, b := w.unit.Objects[0], w.unit.Objects[1]
	for _, p := range w.unit.Pods {
		shows := func(o, other plan.Object) bool {
			if !o.Exposure.Shows(p.UID, o.Candidate) {
				return o.Stable == o.Candidate
			}
			return other.Together == o.Exposure.Together() || maps.Equal(other.Exposure.With, o.Exposure.With) && other.Exposure.Shows(p.UID, other.Candidate)
		}
		if shows(a, b) != shows(b, a) {
			w.Errorf("pod %s has the candidate of one object only: %+v %+v", p.Name, a, b)
		}
	}
}

// TestAPersonEndsARelease of one object of a group: it ends for all.
func TestAPersonEndsARelease(t *testing.T) {
	t.Parallel()
	w := newEdited(t, 8, "{group: g, steps: [1, 50%], pause: 10s}", web, "secret/tls")
	w.pass(3 * time.Second).do()
	w.wantShown(1, release.Progressing)
	w.unit.Objects[1].Exposure = release.Exposure{Digest: "2", State: release.Reverted}
	w.do()
	w.wantShown(0, release.Reverted)
}

// TestARefusedGroupStaysRefused, and a newer edit of one object begins again, although another one
// has been promoted by hand meanwhile.
func TestARefusedGroupStaysRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 10, "{group: g, steps: [1], pause: 30s}", web, "secret/tls")
	w.refuses = true
	w.edit(web, "2")
	w.edit("secret/tls", "2")
	w.pass(5 * time.Second).do()
	w.wantShown(0, release.Refused)
	w.unit.Objects[0].Stable, w.unit.Objects[0].Exposure = "2", release.Exposure{}
	w.do()
	w.pass(time.Hour).do()
	w.wantShown(0, release.Refused)
	w.refuses = false
	w.unit.Objects[0].Together = w.unit.Objects[1].Exposure.Together()
	w.edit("secret/tls", "3")
	w.pass(5 * time.Second).do()
	w.wantShown(1, release.Progressing)
}

// TestALabelBeginsNothing: the release of a group has ended, or is under way, and goes on as before
// when an object of it gets another version and no other content.
func TestALabelBeginsNothing(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		annotation string
		begin      func(w *world)
		state      release.State
		shown      int
	}{
		"reverted": {"{group: g, steps: [2], pause: 30s}", (*world).failOne, release.Reverted, 0},
		"frozen":   {"{group: g, steps: [2], pause: 30s, onFailure: freeze}", (*world).failOne, release.Frozen, 2},
		"refused":  {"{group: g, steps: [2], pause: 30s}", func(w *world) { w.refuses = true; w.do(); w.refuses = false }, release.Refused, 0},
		"under way": {
			"{group: g, steps: [2, 50%], pause: 10s}",
			func(w *world) { w.do(); w.pass(10 * time.Second).do() },
			release.Progressing, 5,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEdited(t, 10, tc.annotation, web, "secret/tls")
			w.pass(5 * time.Second)
			tc.begin(w)
			w.wantShown(tc.shown, tc.state)
			for i := range w.unit.Objects {
				w.unit.Objects[i].Version += "-labelled"
				before := w.unit.Objects[0].Exposure.String()
				w.pass(3 * time.Second).do()
				w.wantShown(tc.shown, tc.state)
				if after := w.unit.Objects[0].Exposure.String(); after != before {
					t.Errorf("the exposure became %s, was %s", after, before)
				}
			}
			w.refuses = false
			w.edit(web, "3") // A newer edit begins again.
			w.seen = map[string]*plan.Seen{}
			w.pass(5 * time.Second).do()
			w.wantShown(2, release.Progressing)
		})
	}
}

// failOne has a pod that has the edit be no longer Ready.
func (w *world) failOne() {
	w.do()
	w.spoilOne(func(p *plan.Pod) { p.IsReady, p.Changed = false, w.unit.Now })
	w.do()
}

// TestAFailureBetweenTwoPromotions reverts nothing: one object of the group cannot be taken back
// any more, and no pod may have half of a group.
func TestAFailureBetweenTwoPromotions(t *testing.T) {
	t.Parallel()
	for name, meanwhile := range map[string]func(w *world){
		"a failure":                    func(w *world) { w.spoilOne(func(p *plan.Pod) { p.IsReady, p.Changed = false, w.unit.Now }) },
		"an edit of what was promoted": func(w *world) { w.edit(web, "3") },
		"a label on what was not":      func(w *world) { w.unit.Objects[1].Version += "-labelled" },
		"a label on what was, and a failure": func(w *world) {
			w.unit.Objects[0].Version += "-labelled"
			w.spoilOne(func(p *plan.Pod) { p.Restarts++ })
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEdited(t, 8, "{group: g, steps: [1], pause: 10s}", web, "secret/tls")
			w.pass(3 * time.Second).do()
			w.pass(10 * time.Second).do()
			w.wantShown(8, release.Progressing)
			d := w.pass(time.Second).decide()
			if d.Action != plan.Promote {
				t.Fatalf("the decision is %v, want the promotion", d)
			}
			w.act(web, d) // The other write fails.
			meanwhile(w)
			d = w.decide()
			if d.Action != plan.Promote || len(d.Names) != 1 || d.Names[0] != "secret/tls" {
				t.Errorf("the decision is %v, want that secret/tls is promoted too", d)
			}
		})
	}
}

// TestTheLastWriteNeedsItsTime: drivers must hear of every exposure before the first object is
// promoted, also if a controller was killed between two of them.
func TestTheLastWriteNeedsItsTime(t *testing.T) {
	t.Parallel()
	for name, next := range map[string]func(plan.Unit) plan.Decision{
		"the controller": plan.Decide,
		"a person":       func(u plan.Unit) plan.Decision { return plan.Promotion(u, "by me") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEdited(t, 8, "{group: g, steps: [], pause: 10s}", web, "secret/tls")
			w.pass(3 * time.Second)
			d := next(w.unit)
			w.act(web, d) // Then the controller or the plugin is killed.
			d = next(w.pass(time.Minute).unit)
			if len(d.Names) != 1 || d.Names[0] != "secret/tls" {
				t.Errorf("the next writes are of %q, want of what lacks the exposure only: else a controller that is killed at each write comes to no end", d.Names)
			}
			for _, name := range d.Names {
				w.act(name, d)
			}
			if d = next(w.pass(time.Millisecond).unit); d.Action != plan.Rest || d.After < 900*time.Millisecond {
				t.Errorf("the decision is %v, want a second's rest", d)
			}
		})
	}
}

// TestAFailureBetweenTwoExposures ends the release, although the controller was killed between the
// two writes, and starts when the pod has failed.
func TestAFailureBetweenTwoExposures(t *testing.T) {
	t.Parallel()
	w := newEdited(t, 8, "{group: g, steps: [2], pause: 10s}", web, "secret/tls")
	w.pass(3 * time.Second).do()
	w.act(web, w.pass(10*time.Second).decide()) // All pods get the edit, as far as this object knows.
	w.pass(5 * time.Second)
	exposed := w.unit.Objects[1].Exposure.Pods[0]
	for i := range w.unit.Pods {
		if p := &w.unit.Pods[i]; p.UID == exposed {
			p.IsReady, p.Changed = false, w.unit.Now.Truncate(time.Second)
		}
	}
	w.seen = map[string]*plan.Seen{}
	w.pass(5 * time.Second).do()
	w.wantShown(0, release.Reverted)
}
