package plan_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/release"
	"github.com/liveconfig-csi/liveconfig/pkg/release/plan"
)

// newProving returns a world with an edit whose first step is over, and in which drivers can be asked.
func newProving(t *testing.T, pods int, annotation string, names ...string) *world {
	t.Helper()
	w := newWorld(t, pods, annotation, names...)
	w.unit.CanProve, w.missing = true, map[string]string{}
	for i := range w.unit.Pods {
		w.unit.Pods[i].Node = fmt.Sprint("node-", i)
	}
	for _, name := range names {
		w.edit(name, "2")
	}
	w.pass(3 * time.Second).do()
	return w
}

// lose has drivers report nothing good about pods.
func (w *world) lose(why string) {
	for _, p := range w.unit.Pods {
		w.missing[p.UID] = why
	}
}

// wantHeld checks that nothing brings a release further for hours, and that it reports why.
func (w *world) wantHeld(shown int, why string) {
	w.Helper()
	for range 100 {
		w.pass(2 * time.Minute).do()
		w.wantShown(shown, release.Waiting)
	}
	for _, o := range w.unit.Objects {
		if !strings.Contains(o.Exposure.Reason, why) {
			w.Errorf("the reason is %q, want %q in it", o.Exposure.Reason, why)
		}
	}
}

// TestProof is what a step needs, whatever the time: without it, the release waits and reports for whom, and goes on when there is proof.
func TestProof(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		spoil  func(w *world)
		repair func(w *world)
		why    string
	}{
		"the driver does not run": {
			func(w *world) { w.lose("the driver does not run") }, func(w *world) { clear(w.missing) },
			"it is not known that the files of pod web-",
		},
		"one pod of many does not have it": {
			func(w *world) { w.missing[plan.Exposed(w.unit)[1].UID] = "the file has other content" }, func(w *world) { clear(w.missing) },
			"the file has other content",
		},
		"no pod is Ready": {
			func(w *world) {
				w.seen = nil
				for i := range w.unit.Pods {
					w.unit.Pods[i].IsReady = false
				}
			},
			func(w *world) {
				for i := range w.unit.Pods {
					w.unit.Pods[i].IsReady = true
				}
			},
			"no pod that is Ready has the edit",
		},
	}
	for name, tc := range tests {
		for _, names := range [][]string{{web}, {web, "secret/tls"}} {
			t.Run(fmt.Sprint(name, ", objects: ", len(names)), func(t *testing.T) {
				t.Parallel()
				w := newProving(t, 10, "{steps: [2, 50%], pause: 30s, group: g}", names...)
				w.wantShown(2, release.Progressing)
				tc.spoil(w)
				w.wantHeld(2, tc.why)
				tc.repair(w)
				w.pass(10 * time.Second).do()
				w.wantShown(5, release.Progressing)
				w.pass(30 * time.Second).do()
				w.pass(2 * time.Second).do()
				w.wantStable("2")
			})
		}
	}
}

// TestNobodyProves: an edit that no pod has is never promoted by the time.
func TestNobodyProves(t *testing.T) {
	t.Parallel()
	w := newProving(t, 0, "{steps: [1, 50%], pause: 30s}", web)
	w.wantHeld(0, "no pod that is Ready has the edit")
	w.unit.Pods = append(w.unit.Pods, plan.Pod{Name: "new", UID: "uid-new", Node: "n", Created: w.unit.Now, Changed: w.unit.Now, IsReady: true})
	w.do()
	w.wantShown(1, release.Progressing)
	w.pass(30 * time.Second).do()
	w.wantStable("2")
}

// TestUnreadyPodsProveNothing: a step of pods that are never Ready does not end.
func TestUnreadyPodsProveNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2, "{steps: [1], pause: 30s}", web)
	w.unit.CanProve = true
	for i := range w.unit.Pods {
		w.unit.Pods[i].IsReady = false
	}
	w.edit(web, "2")
	w.do()
	w.wantShown(1, release.Progressing)
	w.wantHeld(1, "no pod that is Ready has the edit")
}

// TestProofWithoutDrivers: the time alone counts if the annotation has that, or if the controller cannot ask.
func TestProofWithoutDrivers(t *testing.T) {
	t.Parallel()
	for annotation, canProve := range map[string]bool{"{steps: [1], evidence: none}": true, "{steps: [1]}": false, "{steps: []}": true} {
		w := newProving(t, 3, annotation, web)
		w.unit.CanProve = canProve
		w.lose("the driver does not run")
		w.pass(30 * time.Second).do()
		w.wantStable("2")
	}
}

// TestAFailureWhileItWaits takes the edit back.
func TestAFailureWhileItWaits(t *testing.T) {
	t.Parallel()
	w := newProving(t, 10, "{steps: [2], pause: 30s}", web)
	w.lose("the driver does not run")
	w.wantHeld(2, "the driver does not run")
	w.spoilOne(func(p *plan.Pod) { p.IsReady, p.Changed = false, w.unit.Now })
	w.do()
	w.wantShown(0, release.Reverted)
}

// TestProofIsNewerThanTheStep, and drivers are asked again and again, but not all the time.
func TestProofIsNewerThanTheStep(t *testing.T) {
	t.Parallel()
	w := newProving(t, 10, "{steps: [2, 50%], pause: 30s}", web)
	w.ask(w.unit.Pods)
	w.lose("the file has other content")
	w.pass(29 * time.Second).do()
	before := w.asked
	w.wantHeld(2, "the file has other content")
	for range 60 {
		w.pass(time.Second).do()
	}
	if asked := w.asked - before; asked < 12 || asked > 150 {
		t.Errorf("drivers were asked %d times", asked)
	}
}

// TestManyNodes: a large step asks few drivers, always the same ones.
func TestManyNodes(t *testing.T) {
	t.Parallel()
	w := newProving(t, 200, "{steps: [50%], pause: 30s}", web)
	w.pass(30 * time.Second)
	unit := w.unit
	first := plan.Decide(unit)
	slices.Reverse(unit.Pods)
	second := plan.Decide(unit)
	nodesOf := func(d plan.Decision) map[string]bool {
		nodes := map[string]bool{}
		for _, p := range d.Pods {
			nodes[p.Node] = true
		}
		return nodes
	}
	if first.Action != plan.Ask || len(nodesOf(first)) != 20 || !maps.Equal(nodesOf(first), nodesOf(second)) {
		t.Errorf("it asks %d nodes (%s), want 20, the same each time", len(nodesOf(first)), first.Action)
	}
}

// TestAPersonPromotesWithoutProof, who has looked elsewhere.
func TestAPersonPromotesWithoutProof(t *testing.T) {
	t.Parallel()
	w := newProving(t, 10, "{steps: [2, 50%], pause: 30s, group: g}", web, "secret/tls")
	w.lose("the driver does not run")
	w.wantHeld(2, "the driver does not run")
	for range 5 {
		d := plan.Promotion(w.unit, "by jane")
		for _, name := range d.Names {
			w.act(name, d)
		}
		w.pass(time.Second)
	}
	w.wantStable("2")
}

// TestFilesThatGetTheEditLate: a step does not end before a pod has worked with the edit for its time, also if its driver was away
// at the beginning.
func TestFilesThatGetTheEditLate(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		since time.Duration // After the beginning of the step.
		more  time.Duration // How much longer the step lasts.
	}{
		"at once":           {100 * time.Millisecond, 100 * time.Millisecond},
		"in its middle":     {20 * time.Second, 20 * time.Second},
		"at its end":        {30 * time.Second, 30 * time.Second},
		"before it":         {-time.Minute, 0},
		"nobody knows when": {0, 0},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newProving(t, 10, "{steps: [2, 50%], pause: 30s}", web)
			if tc.since != 0 {
				w.since = w.unit.Now.Add(tc.since)
			}
			after := w.pass(30 * time.Second).do()
			if tc.more > 0 {
				w.wantShown(2, release.Progressing)
				if after != tc.more {
					t.Errorf("it is decided again after %s, want %s", after, tc.more)
				}
				w.pass(tc.more).do()
			}
			w.wantShown(5, release.Progressing)
		})
	}
}

// TestARepairedDriver: a release that has waited for a driver goes on with its step, and not with the next one.
func TestARepairedDriver(t *testing.T) {
	t.Parallel()
	w := newProving(t, 10, "{steps: [2, 50%], pause: 30s, group: g}", web, "secret/tls")
	w.lose("the driver does not run")
	w.pass(time.Hour).do()
	w.wantShown(2, release.Waiting)
	clear(w.missing)
	w.since = w.unit.Now
	w.pass(6 * time.Second).do()
	w.wantShown(2, release.Progressing)
	if reason := w.unit.Objects[0].Exposure.Reason; reason != "" {
		t.Errorf("the reason is %q, want none", reason)
	}
	w.pass(24 * time.Second).do()
	w.wantShown(5, release.Progressing)
}
