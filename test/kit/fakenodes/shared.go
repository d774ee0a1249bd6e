package fakenodes

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/liveconfig-csi/liveconfig/test/kit/cluster"
	"github.com/liveconfig-csi/liveconfig/test/kit/controllers"
)

// sharedNodes is enough for a DaemonSet to be rolled out in steps.
const sharedNodes = 3

// shared is the nodes of this test binary's cluster. It is a variable for the reason that the cluster is one.
var shared struct {
	// mu guards the fields and is held while the nodes starts, so that parallel tests start one.
	mu sync.Mutex
	// main says that ForMain is going to stop what ForTest starts.
	main  bool
	stage *Nodes
	err   error
}

// ForMain is [controllers.ForMain] for a binary that calls [ForTest].
func ForMain(m interface{ Run() int }) int {
	return controllers.ForMain(cluster.MainFunc(func() int {
		shared.mu.Lock()
		shared.main = true
		shared.mu.Unlock()
		status := m.Run()
		shared.mu.Lock()
		defer shared.mu.Unlock()
		if shared.stage != nil {
			shared.stage.Stop()
		}
		return status
	}))
}

// ForTest returns the nodes, with three nodes and [controllers.ForTest]'s controllers, that all tests of this binary share,
// and starts it for the first. Tests keep out of each other's way by namespaces, but every DaemonSet has pods on all nodes.
func ForTest(t testing.TB) *Nodes {
	t.Helper()
	controllers.ForTest(t)
	c := cluster.ForTest(t)
	// The stage outlives the test that happens to be the first.
	s, err := sharedStage(context.WithoutCancel(t.Context()), c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func sharedStage(ctx context.Context, c *cluster.Cluster) (*Nodes, error) {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	switch {
	case !shared.main:
		return nil, errors.New("nobody would stop the tests' stage: call fakenodes.ForMain in TestMain")
	case shared.stage == nil && shared.err == nil:
		shared.stage, shared.err = Start(ctx, c, Config{Nodes: sharedNodes})
	}
	return shared.stage, shared.err
}
