package plan_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/release"
	"github.com/liveconfig-csi/liveconfig/pkg/release/plan"
)

// TestTheFirstPodsAreSpread over the nodes, in each step, and new pods get no more than their share.
func TestTheFirstPodsAreSpread(t *testing.T) {
	t.Parallel()
	for seed := range 30 {
		for _, steps := range []string{"[2, 4, 8]", "[10%, 20%, 40%]"} {
			w := newWorld(t, 20, "{steps: "+steps+", pause: 30s}", web)
			for i := range w.unit.Pods {
				w.unit.Pods[i].UID, w.unit.Pods[i].Node = fmt.Sprint("uid-", seed, "-", i), fmt.Sprint("node-", max(0, i-16))
			}
			w.unit.Pods[19].IsReady = false // The only pod of its node comes last all the same.
			w.edit(web, "2")
			for _, want := range []struct{ pods, nodes int }{{2, 2}, {4, 3}, {8, 3}} {
				w.do()
				w.wantShown(want.pods, release.Progressing)
				nodes := map[string]bool{}
				for _, p := range plan.Exposed(w.unit) {
					nodes[p.Node] = true
				}
				if len(nodes) != want.nodes || nodes["node-3"] {
					t.Errorf("seed %d, %s: %d pods are on the nodes %v, want %d", seed, steps, want.pods, nodes, want.nodes)
				}
				if e := w.unit.Objects[0].Exposure; e.Threshold > float64(want.pods)/20 {
					t.Errorf("the threshold is %v, which is more than the share", e.Threshold)
				}
				w.pass(30 * time.Second)
			}
			w.do()
			w.wantStable("2")
		}
	}
}
