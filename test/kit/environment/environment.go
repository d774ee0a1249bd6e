// Package environment is where tests of the whole driver work: a new mount namespace, one real cluster with the driver
// installed from deploy/base, the driver built from this checkout with the race detector, and as many nodes as wanted.
//
// It does not know what is tested.
package environment

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/files/mountns"
	"github.com/liveconfig-csi/liveconfig/test/kit/cluster"
	"github.com/liveconfig-csi/liveconfig/test/kit/expect"
	"github.com/liveconfig-csi/liveconfig/test/kit/node"
	"github.com/liveconfig-csi/liveconfig/test/kit/process"
	"github.com/liveconfig-csi/liveconfig/test/kit/shared"
)

// The driver's service account in deploy/base.
const (
	DriverNamespace = "liveconfig-system"
	DriverAccount   = "liveconfig-driver"
)

// credentials is the directory of the driver's credentials in the shared cluster, where it is installed then.
var credentials shared.One[string]

// Main runs a binary's tests in the environment and returns the exit status:
//
//	func TestMain(m *testing.M) { os.Exit(environment.Main(m)) }
func Main(m *testing.M) int { return mountns.Main(inside{m}) }

// inside is what runs in the mount namespace.
type inside struct{ m *testing.M }

// Run runs the tests in the environment and removes it.
func (i inside) Run() int {
	return cluster.ForMain(cluster.MainFunc(func() int {
		return credentials.Main(i.m, func(dir string, _ int) error { return os.RemoveAll(dir) })
	}))
}

// Cluster returns the shared cluster, with the driver's objects installed.
func Cluster(t testing.TB) *cluster.Cluster {
	t.Helper()
	credentialsDir(t)
	return cluster.ForTest(t)
}

func credentialsDir(t testing.TB) string {
	t.Helper()
	c := cluster.ForTest(t)
	return credentials.Get(t, func(ctx context.Context) (string, error) {
		dir, err := os.MkdirTemp("", "lc-environment-") //nolint:usetesting // It outlives the test.
		if err != nil {
			return "", err
		}
		if err := install(ctx, c, kubeconfig(dir)); err != nil {
			return "", errors.Join(err, os.RemoveAll(dir))
		}
		return dir, nil
	})
}

// Folder returns the folder below deploy that is for the version of a cluster.
func Folder(c *cluster.Cluster) (string, error) {
	version, err := c.Client().Discovery().ServerVersion()
	if err != nil {
		return "", err
	}
	const firstWithTokensInSecrets = 35
	minor, err := strconv.Atoi(strings.TrimSuffix(version.Minor, "+"))
	if err == nil && minor < firstWithTokensInSecrets {
		return "overlays/before-1.35", nil
	}
	return "base", err
}

// install applies deploy/base or what is for an older cluster, and writes the credentials of its service account.
func install(ctx context.Context, c *cluster.Cluster, kubeconfig string) error {
	repo, err := Repo()
	if err != nil {
		return err
	}
	folder, err := Folder(c)
	if err != nil {
		return err
	}
	if _, err := c.Apply(ctx, filepath.Join(repo, "deploy", folder)); err != nil {
		return fmt.Errorf("install deploy/%s: %w", folder, err)
	}
	return c.WriteServiceAccountKubeconfig(ctx, kubeconfig, DriverNamespace, DriverAccount)
}

// Controller returns the program of the controller.
func Controller(t testing.TB) (path string) {
	t.Helper()
	return racing(controller).path(t)
}

// AsShipped returns the program of a folder of cmd as users have it, without the race detector.
func AsShipped(t testing.TB, command string) (path string) {
	t.Helper()
	return shipped(command).path(t)
}

// Plugin returns the plugin of kubectl as users have it.
func Plugin(t testing.TB) (path string) {
	t.Helper()
	return shipped(plugin).path(t)
}

func kubeconfig(dir string) string { return filepath.Join(dir, "driver.kubeconfig") }

// Repo returns the checkout's root.
func Repo() (string, error) { return cluster.Checkout() }

// Node starts the driver on a separate node, with further flags. When the test ends the driver is stopped, and the
// test fails if the driver ended badly or left a mount behind, or if a value that was [Marked] or a token is anywhere but in
// volumes; when the test has failed, the driver's log is shown.
func Node(t testing.TB, args ...string) *node.Node {
	t.Helper()
	return start(t, node.Config{Binary: racing(driver).path(t), Dir: shortDir(t), Args: args})
}

// NodeWithout is [Node] without an API server: the driver reads the manifests of a directory.
func NodeWithout(t testing.TB, manifests string, args ...string) *node.Node {
	t.Helper()
	return start(t, node.Config{Binary: racing(driver).path(t), Manifests: manifests, Dir: shortDir(t), Args: args})
}

// start starts a driver, with the credentials of the environment unless it has others or reads manifests.
func start(t testing.TB, cfg node.Config) *node.Node {
	t.Helper()
	if cfg.Manifests == "" && cfg.Kubeconfig == "" {
		cfg.Kubeconfig = kubeconfig(credentialsDir(t))
	}
	cfg.Args = append([]string{"-v=5"}, cfg.Args...)
	n, err := node.Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeNode(t, n) })
	return n
}

// shortDir is t.TempDir for the paths of unix sockets, which must be short.
func shortDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "lc-") //nolint:usetesting // As said above.
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("remove the node's directory: %v", err)
		}
	})
	return dir
}

func closeNode(t testing.TB, n *node.Node) {
	t.Helper()
	wantNoLeakFromProcess(t, n)
	if err := n.Stop(); err != nil {
		t.Errorf("stop the driver: %v", err)
	}
	wantNoLeakOnDisk(t, n)
	if mounts := Mounts(t, n.KubeletDir()); len(mounts) > 0 {
		t.Errorf("mounts left behind: %q", mounts)
	}
	if t.Failed() {
		t.Logf("the driver's log ends with:\n%s", process.Tail(n.LogFile(), 8192))
	}
}

// Mounts returns the lines of the mount table at or below dir.
func Mounts(t testing.TB, dir string) []string {
	t.Helper()
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for line := range strings.Lines(string(table)) {
		if fields := strings.Fields(line); len(fields) > 4 && strings.HasPrefix(fields[4]+"/", dir+"/") {
			found = append(found, line)
		}
	}
	return found
}

// Eventually is [expect.Eventually].
func Eventually(t testing.TB, within time.Duration, check func() error) {
	t.Helper()
	expect.Eventually(t, within, check)
}
