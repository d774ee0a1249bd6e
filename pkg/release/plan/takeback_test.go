package plan_test

import (
	"testing"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/release"
	"github.com/liveconfig-csi/liveconfig/pkg/release/plan"
)

// TestWhoIsAskedAfterARevert: the pods that had the edit or, where these are not known, some of all.
func TestWhoIsAskedAfterARevert(t *testing.T) {
	t.Parallel()
	const annotation = "{steps: [2], pause: 30s}"
	revert := func(t *testing.T, pods int, annotation string) *world {
		t.Helper()
		w := newProving(t, pods, annotation, web)
		w.do()
		had := plan.Exposed(w.unit)
		w.unit.Pods[indexOf(w, had[0].UID)].IsReady = false
		w.missing = map[string]string{had[0].UID: "still there", had[1].UID: "still there"}
		w.do()
		w.wantShown(0, release.Reverted)
		return w
	}
	decide := func(w *world) plan.Decision {
		unit := w.unit
		unit.Pods = nil
		for _, p := range w.unit.Pods {
			p.Before = w.seen[p.UID]
			unit.Pods = append(unit.Pods, p)
		}
		return plan.Decide(unit)
	}
	t.Run("those that had it", func(t *testing.T) {
		t.Parallel()
		w := revert(t, 50, annotation)
		if d := decide(w); d.Action != plan.Rest || d.Doubt == "" || d.After == 0 || d.Confirmed > 0 {
			t.Errorf("with an open question: %+v", d)
		}
		w.missing = nil
		w.pass(6 * time.Second)
		if d := decide(w); d.Action != plan.Ask || len(d.Pods) != 2 {
			t.Errorf("later: %s about %d pods, want that the 2 are asked about that had it", d.Action, len(d.Pods))
		}
		w.do()
		if d := decide(w); d.Action != plan.Rest || d.Doubt != "" || d.Confirmed != 2 {
			t.Errorf("with answers: %+v, want 2 confirmed", d)
		}
		w.pass(time.Hour)
		if d := decide(w); d.Action != plan.Rest {
			t.Errorf("an hour later: %s, want no more questions", d.Action)
		}
	})
	t.Run("after a restart", func(t *testing.T) {
		t.Parallel()
		w := revert(t, 50, annotation)
		w.seen = nil
		w.unit.Pods[0].Proof = nil
		d := decide(w)
		if d.Action != plan.Ask || len(d.Pods) != 20 {
			t.Errorf("%s about %d pods, want that 20 of all are asked about", d.Action, len(d.Pods))
		}
	})
	t.Run("nobody without evidence", func(t *testing.T) {
		t.Parallel()
		w := revert(t, 50, "{steps: [2], pause: 30s, evidence: none}")
		if d := decide(w); d.Action != plan.Rest || w.asked > 0 {
			t.Errorf("%s, and drivers were asked %d times", d.Action, w.asked)
		}
	})
}

func indexOf(w *world, uid string) int {
	for i, p := range w.unit.Pods {
		if p.UID == uid {
			return i
		}
	}
	return -1
}
