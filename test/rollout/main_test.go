// Package rollout tests the rollout controller from outside: its real process with the rights of its installation, a real
// API server, Kubernetes' own controllers, and kubectl. Only pods are played: see test/kit/fakenodes.
package rollout

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/liveconfig-csi/liveconfig/test/kit/cluster"
	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
	"github.com/liveconfig-csi/liveconfig/test/kit/fakenodes"
)

// atOnce is how many tests run at a time: most of the time each waits for other programs.
const atOnce = "8"

func TestMain(m *testing.M) { os.Exit(fakenodes.ForMain(inside{m})) }

// inside is what runs around the tests: it removes what they share.
type inside struct{ m *testing.M }

func (i inside) Run() int {
	dir, err := os.MkdirTemp("", "lc-rollout-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "make a directory:", err)
		return 1
	}
	shared.dir = dir
	flag.Parse()
	if err := flag.Set("test.parallel", atOnce); err != nil {
		fmt.Fprintln(os.Stderr, "have tests run at the same time:", err)
		return 1
	}
	status := i.m.Run()
	if err := os.RemoveAll(dir); err != nil {
		fmt.Fprintln(os.Stderr, "remove the tests' directory:", err)
		return max(status, 1)
	}
	return status
}

// shared is what all tests of the binary use: the controller's credentials.
var shared struct {
	dir  string
	once sync.Once
	err  error
}

// program returns the controller's program, built with the race detector, and a kubeconfig of its service account.
func program(t testing.TB) (binary, kubeconfig string) {
	t.Helper()
	kubeconfig = filepath.Join(shared.dir, "kubeconfig")
	c := theCluster(t)
	shared.once.Do(func() { shared.err = install(context.WithoutCancel(t.Context()), c, kubeconfig) })
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return environment.Controller(t), kubeconfig
}

// install gives a cluster what the controller is installed with, and writes a kubeconfig of its service account.
func install(ctx context.Context, c *cluster.Cluster, kubeconfig string) error {
	repo, err := environment.Repo()
	if err != nil {
		return err
	}
	for _, part := range []string{"base/namespace.yaml", "controller"} {
		if _, err := c.Apply(ctx, filepath.Join(repo, "deploy", part)); err != nil {
			return fmt.Errorf("install deploy/%s: %w", part, err)
		}
	}
	return c.WriteServiceAccountKubeconfig(ctx, kubeconfig, "liveconfig-system", "liveconfig-controller")
}
