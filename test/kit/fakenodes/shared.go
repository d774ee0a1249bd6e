package fakenodes

import (
	"context"
	"testing"

	"github.com/liveconfig-csi/liveconfig/test/kit/cluster"
	"github.com/liveconfig-csi/liveconfig/test/kit/controllers"
	"github.com/liveconfig-csi/liveconfig/test/kit/shared"
)

// sharedNodes is enough for a DaemonSet to be rolled out in steps.
const sharedNodes = 3

// ofTests are the nodes of this test binary's cluster.
var ofTests shared.One[*Nodes]

// ForMain is [controllers.ForMain] for a binary that calls [ForTest].
func ForMain(m interface{ Run() int }) int {
	return controllers.ForMain(cluster.MainFunc(func() int {
		return ofTests.Main(m, func(s *Nodes, _ int) error {
			s.Stop()
			return nil
		})
	}))
}

// ForTest returns the nodes, with three nodes and [controllers.ForTest]'s controllers, that all tests of this binary share,
// and starts it for the first. Tests keep out of each other's way by namespaces, but every DaemonSet has pods on all nodes.
func ForTest(t testing.TB) *Nodes {
	t.Helper()
	controllers.ForTest(t)
	c := cluster.ForTest(t)
	return ofTests.Get(t, func(ctx context.Context) (*Nodes, error) { return Start(ctx, c, Config{Nodes: sharedNodes}) })
}
