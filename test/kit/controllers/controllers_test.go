package controllers_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/liveconfig-csi/liveconfig/test/kit/cluster"
	"github.com/liveconfig-csi/liveconfig/test/kit/controllers"
	"github.com/liveconfig-csi/liveconfig/test/kit/expect"
	"github.com/liveconfig-csi/liveconfig/test/kit/orphan"
)

// orphanVariable turns this test binary into a program that starts controllers and waits to be killed.
const orphanVariable = "LIVECONFIG_TEST_CONTROLLERS_ORPHAN"

// patience is how long what takes a second may take on a busy machine.
const patience = 60 * time.Second

func TestMain(m *testing.M) {
	if os.Getenv(orphanVariable) != "" {
		os.Exit(orphan.Be(context.Background(), func(ctx context.Context) error {
			c, err := cluster.Start(ctx, cluster.Config{})
			if err != nil {
				return err
			}
			_, err = controllers.Start(ctx, controllers.Config{Cluster: c})
			return err
		}))
	}
	os.Exit(controllers.ForMain(m))
}

func TestKilledParentTakesTheControllersWithIt(t *testing.T) {
	t.Parallel()
	temp, err := os.MkdirTemp("", "lc") //nolint:usetesting // t.TempDir is too long for a socket's path.
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(temp) })
	kill := orphan.Start(t, orphanVariable+"=1", "TMPDIR="+temp)
	const programs = 3 // With etcd and the API server.
	if got := orphan.Left(t, temp); len(got) != programs {
		t.Errorf("%d programs run below %s: %q, want %d", len(got), temp, got, programs)
	}
	kill()
	expect.Eventually(t, patience, func() error {
		if left := orphan.Left(t, temp); len(left) > 0 {
			return fmt.Errorf("programs are left: %q", left)
		}
		return nil
	})
}
