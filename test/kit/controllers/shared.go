package controllers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/liveconfig-csi/liveconfig/test/kit/cluster"
	"github.com/liveconfig-csi/liveconfig/test/kit/process"
)

// shared are the controllers of this test binary's cluster. It is a variable for the reason that the cluster is one.
var shared struct {
	// mu guards the fields and is held while the controllers start, so that parallel tests start one set.
	mu sync.Mutex
	// main says that ForMain is going to stop what ForTest starts.
	main        bool
	controllers *Controllers
	err         error
}

// ForMain is [cluster.ForMain] for a binary that calls [ForTest]. When tests have failed, it shows the end of the controller
// manager's log too.
func ForMain(m interface{ Run() int }) int {
	return cluster.ForMain(cluster.MainFunc(func() int {
		shared.mu.Lock()
		shared.main = true
		shared.mu.Unlock()
		return stopShared(m.Run())
	}))
}

// stopShared returns the exit status that the tests' own becomes.
func stopShared(status int) int {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	c := shared.controllers
	if c == nil {
		return status
	}
	if status != 0 {
		fmt.Fprintf(os.Stderr, "the controller manager's log ends with:\n%s", process.Tail(c.logPath(), 4096))
	}
	if err := c.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "stop the tests' controllers:", err)
		return max(status, 1)
	}
	return status
}

// ForTest returns the controllers of [cluster.ForTest]'s cluster, [Unthrottled] and without a scheduler, which all tests of
// this binary share. It starts them for the first.
func ForTest(t testing.TB) *Controllers {
	t.Helper()
	known := cluster.ForTest(t)
	// They outlive the test that happens to be the first.
	c, err := sharedControllers(context.WithoutCancel(t.Context()), known)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func sharedControllers(ctx context.Context, known *cluster.Cluster) (*Controllers, error) {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	switch {
	case !shared.main:
		return nil, errors.New("nobody would stop the tests' controllers: call controllers.ForMain in TestMain")
	case shared.controllers == nil && shared.err == nil:
		shared.controllers, shared.err = Start(ctx, Config{Cluster: known, Args: Unthrottled()})
		if shared.err == nil {
			shared.err = shared.controllers.AwaitReady(ctx)
		}
	}
	return shared.controllers, shared.err
}
