package plan_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/release"
	"github.com/liveconfig-csi/liveconfig/pkg/release/plan"
)

// disrupt has the pods that have the edit be evicted, or lose their node.
func (w *world) disrupt() {
	for _, exposed := range plan.Exposed(w.unit) {
		for i := range w.unit.Pods {
			if p := &w.unit.Pods[i]; p.UID == exposed.UID {
				p.IsDisrupted, p.IsReady, p.Changed = true, false, w.unit.Now
			}
		}
	}
}

// TestDisruptedPods prove nothing, neither good nor bad: other pods have the edit in their place, for a whole step.
func TestDisruptedPods(t *testing.T) {
	t.Parallel()
	for _, hasFailed := range []bool{false, true} {
		for _, canProve := range []bool{false, true} {
			for _, isForgotten := range []bool{false, true} {
				for annotation, shown := range map[string]int{"{steps: [2], pause: 30s}": 2, "{steps: [30%], pause: 30s}": 2} {
					t.Run(fmt.Sprintf("has failed: %t, can prove: %t, restarted: %t, %s", hasFailed, canProve, isForgotten, annotation), func(t *testing.T) {
						t.Parallel()
						w := newProving(t, 8, annotation, web)
						w.unit.CanProve = canProve
						w.wantShown(shown, release.Progressing)
						w.pass(3 * time.Second)
						w.disrupt()
						for i := range w.unit.Pods {
							if p := &w.unit.Pods[i]; p.IsDisrupted {
								p.HasFailed = hasFailed
							}
						}
						if isForgotten {
							w.seen = nil
						}
						w.do()
						w.wantShown(0, release.Progressing)
						w.pass(27 * time.Second).do()
						w.wantShown(map[string]int{"{steps: [2], pause: 30s}": 2, "{steps: [30%], pause: 30s}": 1}[annotation], release.Progressing)
						w.pass(29 * time.Second).do()
						if w.unit.Objects[0].Stable == "2" {
							t.Error("the edit was promoted before its new pods had it for a step")
						}
						w.pass(time.Second).do()
						w.wantStable("2")
					})
				}
			}
		}
	}
}

// TestAFailureBesideADisruption takes the edit back.
func TestAFailureBesideADisruption(t *testing.T) {
	t.Parallel()
	w := newEdited(t, 8, "{steps: [2], pause: 30s}", web)
	w.do()
	w.spoilOne(func(p *plan.Pod) { p.IsDisrupted, p.IsReady, p.Changed = true, false, w.unit.Now })
	w.pass(time.Second).do()
	w.wantShown(1, release.Progressing)
	w.spoilOne(func(p *plan.Pod) { p.IsReady, p.Changed = false, w.unit.Now })
	w.do()
	w.wantShown(0, release.Reverted)
}

// TestAllPodsAreDisrupted: no time promotes the edit, also if drivers cannot be asked, and it goes on with pods that come back.
// What happened to them with their node is no failure.
func TestAllPodsAreDisrupted(t *testing.T) {
	t.Parallel()
	for _, canProve := range []bool{false, true} {
		for _, annotation := range []string{"{steps: [1], pause: 30s}", "{steps: [100%], pause: 30s}", "{group: g, steps: [50%, 1], pause: 30s}"} {
			t.Run(fmt.Sprint(annotation, " can prove: ", canProve), func(t *testing.T) {
				t.Parallel()
				w := newProving(t, 4, annotation, web)
				w.unit.CanProve = canProve
				for i := range w.unit.Pods {
					p := &w.unit.Pods[i]
					p.IsDisrupted, p.IsReady, p.Changed = true, false, w.unit.Now
				}
				w.wantHeld(0, "each pod that has the edit is evicted, or its node is lost")
				for i := range w.unit.Pods {
					p := &w.unit.Pods[i] // The node was started again.
					p.IsDisrupted, p.Restarts, p.Changed = false, p.Restarts+1, w.unit.Now
				}
				w.do()
				for i := range w.unit.Pods {
					w.unit.Pods[i].IsReady, w.unit.Pods[i].Changed = true, w.unit.Now
				}
				for range 10 {
					w.pass(30 * time.Second).do()
				}
				w.wantStable("2")
			})
		}
	}
}

// TestDisruptedPodsAreNotChosen, and the threshold for new pods stays below theirs.
func TestDisruptedPodsAreNotChosen(t *testing.T) {
	t.Parallel()
	for seed := range 20 {
		w := newWorld(t, 10, "{steps: [40%], pause: 30s}", web)
		for i := range w.unit.Pods {
			w.unit.Pods[i].UID = fmt.Sprint("uid-", seed, "-", i)
			w.unit.Pods[i].IsDisrupted = i < 5
		}
		w.edit(web, "2")
		w.do()
		w.wantShown(2, release.Progressing)
		for i := range w.unit.Pods {
			w.unit.Pods[i].IsDisrupted = false
		}
		w.wantShown(2, release.Progressing)
	}
}
