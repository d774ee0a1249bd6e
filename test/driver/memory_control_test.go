package driver

import (
	"context"
	"fmt"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
)

// TestMemoryRunsOutWithoutABudget (fault 29) is the control of [TestMemoryRunsOut]: a driver with a flag that says it has far more
// memory than its container is killed by the kernel for the same volumes. Where no container can be made, their files
// have to take more than it would have.
func TestMemoryRunsOutWithoutABudget(t *testing.T) {
	t.Parallel()
	for name, bare := range bareOrigins() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			newContained(t, bare, 1).runsOutWithoutABudget(t)
		})
	}
}

func (b *small) runsOutWithoutABudget(t *testing.T) {
	t.Helper()
	const volumes = 80
	b.launch("--volume-memory=1Gi")
	b.set(0, large)
	pods := b.podsOf(volumes)
	var g errgroup.Group
	g.SetLimit(atOnce)
	for _, pod := range pods {
		g.Go(func() error {
			if b.Node.Alive() == nil {
				ctx, cancel := context.WithTimeout(t.Context(), atLength)
				defer cancel()
				_ = b.TryPublish(ctx, pod) // It fails, or waits for another driver, when this one is killed.
			}
			return nil
		})
	}
	_ = g.Wait() // As said above.
	if b.group == nil {
		if got := b.Number("liveconfig_room_used_bytes"); got < smallContainer {
			t.Errorf("the volumes take %.0f bytes, want more than %d: then the other tests show nothing", got, smallContainer)
		}
		return
	}
	environment.Eventually(t, soon, func() error { // A process that was killed needs a moment to end.
		kills, err := b.group.Kills()
		if err == nil && (kills == 0 || b.Node.Alive() == nil) {
			err = fmt.Errorf("the kernel has killed %d processes, want the driver: else the other tests show nothing", kills)
		}
		return err
	})
	must(t, b.group.Raise(8*smallContainer))
	b.Start() // With memory for what is there, it can take it away.
}
