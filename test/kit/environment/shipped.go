package environment

import (
	"testing"

	"github.com/liveconfig-csi/liveconfig/test/kit/node"
)

// NodeAsShipped is [Node] with the driver built as `make build` and the image build it: without C code, and so without
// the race detector. It is for what that changes, which is also how fast it starts and how much memory it takes.
func NodeAsShipped(t testing.TB, args ...string) *node.Node {
	t.Helper()
	return start(t, node.Config{Binary: shipped(driver).path(t), Dir: shortDir(t), Args: args})
}

// NodeAsShippedWithout is [NodeAsShipped] without an API server: see [NodeWithout].
func NodeAsShippedWithout(t testing.TB, manifests string, args ...string) *node.Node {
	t.Helper()
	return start(t, node.Config{Binary: shipped(driver).path(t), Manifests: manifests, Dir: shortDir(t), Args: args})
}

// Plugin returns where the plugin of kubectl is, built as users have it.
func Plugin(t testing.TB) string {
	t.Helper()
	return shipped(plugin).path(t)
}

// NodeLaunched is [NodeAsShipped] with a driver that is started by a command: see [node.Config.Launcher].
func NodeLaunched(t testing.TB, launcher []string, args ...string) *node.Node {
	t.Helper()
	return start(t, node.Config{Binary: shipped(driver).path(t), Dir: shortDir(t), Launcher: launcher, Args: args})
}

// NodeLaunchedWithout is [NodeLaunched] with a driver that reads the manifests of a directory.
func NodeLaunchedWithout(t testing.TB, manifests string, launcher []string, args ...string) *node.Node {
	t.Helper()
	return start(t, node.Config{Binary: shipped(driver).path(t), Manifests: manifests, Dir: shortDir(t), Launcher: launcher, Args: args})
}
