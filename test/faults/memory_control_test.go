package faults

import (
	"context"
	"errors"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/liveconfig-csi/liveconfig/test/kit/bench"
	"github.com/liveconfig-csi/liveconfig/test/kit/lab"
	"github.com/liveconfig-csi/liveconfig/test/kit/memcg"
)

// TestMemoryRunsOutWithoutABudget (fault 29) is the control of [TestMemoryRunsOut]: a driver that is told it has far more
// memory than its container is killed by the kernel for the same volumes.
func TestMemoryRunsOutWithoutABudget(t *testing.T) {
	t.Parallel()
	const objects = 80
	corner := bench.NewCorner(t)
	group, err := memcg.New("liveconfig-control-"+corner.Namespace, smallContainer)
	if errors.Is(err, memcg.ErrForbidden) {
		t.Skipf("the kernel kills only in control groups: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := group.Remove(); err != nil {
			t.Errorf("remove the control group: %v", err)
		}
	})
	b := &small{Bench: corner, group: group}
	b.Use(lab.NodeLaunched(t, group.Launcher(), "--http-endpoint="+b.HTTP, "--volume-memory=1Gi", "-v=2"))
	b.set(1, 0, large)
	pods := b.podsOf(objects, func(int) string { return ownObject(0) })
	var g errgroup.Group
	g.SetLimit(atOnce)
	for _, pod := range pods {
		g.Go(func() error {
			if b.Node.Alive() == nil {
				ctx, cancel := context.WithTimeout(t.Context(), bench.Soon)
				defer cancel()
				_ = b.TryPublish(ctx, pod) // Which fails, or waits for another driver, when this one is killed.
			}
			return nil
		})
	}
	_ = g.Wait() // As said above.
	kills, err := group.Kills()
	if err != nil {
		t.Fatal(err)
	}
	if kills == 0 || b.Node.Alive() == nil {
		t.Errorf("the kernel has killed %d processes, want the driver: then the other tests show nothing", kills)
	}
	if err := group.Raise(8 * smallContainer); err != nil {
		t.Fatal(err)
	}
	b.Start() // With memory for what is there, it can take it away.
}
