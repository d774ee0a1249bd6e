package plan_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/liveconfig-csi/liveconfig/pkg/release"
	"github.com/liveconfig-csi/liveconfig/pkg/release/plan"
)

// TestAFrozenEdit stays in the pods that have it, and reaches no other one, whether the controller
// or a person has frozen it.
func TestAFrozenEdit(t *testing.T) {
	t.Parallel()
	for name, freeze := range map[string]func(w *world){
		"by a failure": func(w *world) { w.spoilOne(func(p *plan.Pod) { p.IsReady, p.Changed = false, w.unit.Now }) },
		"by a person": func(w *world) {
			d := plan.End(w.unit, release.Frozen, "by jane")
			w.act(web, d)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEdited(t, 10, "{steps: [40%], pause: 30s, onFailure: freeze}", web)
			w.do()
			had := uidsOf(plan.Exposed(w.unit))
			w.pass(2 * time.Second)
			freeze(w)
			w.do()
			for i := range 100 {
				w.unit.Pods = append(w.unit.Pods, plan.Pod{Name: fmt.Sprint("new-", i), UID: fmt.Sprint("uid-new-", i), Created: w.unit.Now, IsReady: true})
			}
			w.do()
			w.wantShown(4, release.Frozen)
			if diff := cmp.Diff(had, uidsOf(plan.Exposed(w.unit))); diff != "" {
				t.Errorf("pods with the frozen edit (-before +after):\n%s", diff)
			}
		})
	}
}

// TestRulesForAFrozenEdit: it is checked by rules that come later, and taken back from the pods that have it if it breaks them.
func TestRulesForAFrozenEdit(t *testing.T) {
	t.Parallel()
	for name, refuses := range map[string]bool{"it breaks them": true, "they hold": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEdited(t, 10, "{steps: [40%], pause: 30s, onFailure: freeze}", web)
			w.do()
			w.act(web, plan.End(w.unit, release.Frozen, "by jane"))
			w.do()
			w.wantShown(4, release.Frozen)
			w.refuses = refuses
			w.unit.Objects[0].Rules = "{validate: [{key: a.yaml}]}"
			w.do()
			if refuses {
				w.wantShown(0, release.Refused)
				return
			}
			w.wantShown(4, release.Frozen)
			if reason := w.unit.Objects[0].Exposure.Reason; reason != "by jane" {
				t.Errorf("the reason is %q now", reason)
			}
		})
	}
}

func uidsOf(pods []plan.Pod) (uids []string) {
	for _, p := range pods {
		uids = append(uids, p.UID)
	}
	return uids
}
