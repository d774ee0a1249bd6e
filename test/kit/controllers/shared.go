package controllers

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/liveconfig-csi/liveconfig/test/kit/cluster"
	"github.com/liveconfig-csi/liveconfig/test/kit/process"
	"github.com/liveconfig-csi/liveconfig/test/kit/shared"
)

// ofTests are the controllers of this test binary's cluster.
var ofTests shared.One[*Controllers]

// ForMain is [cluster.ForMain] for a binary that calls [ForTest]. When tests have failed, it shows the end of the controller
// manager's log too.
func ForMain(m interface{ Run() int }) int {
	return cluster.ForMain(cluster.MainFunc(func() int {
		return ofTests.Main(m, func(c *Controllers, status int) error {
			if status != 0 {
				fmt.Fprintf(os.Stderr, "the controller manager's log ends with:\n%s", process.Tail(c.logPath(), 4096))
			}
			return c.Stop()
		})
	}))
}

// ForTest returns the controllers of [cluster.ForTest]'s cluster, [Unthrottled] and without a scheduler, which all tests of
// this binary share. It starts them for the first.
func ForTest(t testing.TB) *Controllers {
	t.Helper()
	known := cluster.ForTest(t)
	return ofTests.Get(t, func(ctx context.Context) (*Controllers, error) {
		return Start(ctx, Config{Cluster: known, Args: Unthrottled()})
	})
}
