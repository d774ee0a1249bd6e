package plan_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/liveconfig-csi/liveconfig/pkg/release"
	"github.com/liveconfig-csi/liveconfig/pkg/release/plan"
	"github.com/liveconfig-csi/liveconfig/pkg/release/settings"
)

// TestOtherStepsMeanwhile: no pod gets or loses the edit because its owner changes the steps, and
// the next step is the first one for more pods.
func TestOtherStepsMeanwhile(t *testing.T) {
	t.Parallel()
	for steps, next := range map[string]int{"[1]": 0, "[]": 0, "[1, 2, 3]": 0, "[50%]": 50, "[1, 50%]": 50, "[90%, 1]": 90} {
		t.Run(steps, func(t *testing.T) {
			t.Parallel()
			w := newEdited(t, 100, "{steps: [1, 5%, 25%], pause: 30s}", web)
			for range 3 {
				w.do()
				w.pass(30 * time.Second)
			}
			w.pass(-30 * time.Second)
			w.wantShown(25, release.Progressing)
			had := uidsOf(plan.Exposed(w.unit))
			annotation := "{steps: " + steps + ", pause: 30s}"
			s, _ := settings.Parse(annotation)
			w.unit.Settings, w.unit.Objects[0].Rules = s, annotation
			for range 29 {
				w.do()
				w.wantShown(25, release.Progressing)
				w.pass(time.Second)
			}
			if diff := cmp.Diff(had, uidsOf(plan.Exposed(w.unit))); diff != "" {
				t.Errorf("pods with the edit (-before +after):\n%s", diff)
			}
			w.pass(time.Second).do()
			if next == 0 {
				w.wantStable("2")
				return
			}
			w.wantShown(next, release.Progressing)
		})
	}
}

// TestUnreadyPodsComeLast: they cannot show whether an edit is good.
func TestUnreadyPodsComeLast(t *testing.T) {
	t.Parallel()
	for seed := range 20 {
		w := newWorld(t, 10, "{steps: [1, 50%], pause: 30s}", web)
		for i := range w.unit.Pods {
			w.unit.Pods[i].UID = fmt.Sprint("uid-", seed, "-", i)
			w.unit.Pods[i].IsReady = i >= 6
		}
		w.edit(web, "2")
		for _, want := range []struct{ shown, unready int }{{1, 0}, {5, 1}} {
			w.do()
			w.wantShown(want.shown, release.Progressing)
			unready := 0
			for _, p := range plan.Exposed(w.unit) {
				if !p.IsReady {
					unready++
				}
			}
			if unready != want.unready {
				t.Errorf("%d of %d pods with the edit are not Ready, want %d", unready, want.shown, want.unready)
			}
			w.pass(30 * time.Second)
		}
	}
}

// TestStepsOfFewPods are those that show the edit to more pods than the step before.
func TestStepsOfFewPods(t *testing.T) {
	t.Parallel()
	w := newEdited(t, 8, "{steps: [1, 5%, 25%, 2, 50%], pause: 30s}", web)
	for _, want := range []int{1, 2, 4} {
		w.do()
		w.wantShown(want, release.Progressing)
		w.pass(30 * time.Second)
	}
	w.do()
	w.wantStable("2")
}
