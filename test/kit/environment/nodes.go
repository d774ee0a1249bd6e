package environment

import (
	"path/filepath"
	"testing"

	"github.com/liveconfig-csi/liveconfig/test/kit/cluster"
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

// NodeLinkedWithout is [NodeWithout] with a kubelet's directory that is a link to another one.
func NodeLinkedWithout(t testing.TB, manifests, disk string, args ...string) *node.Node {
	t.Helper()
	return start(t, node.Config{Binary: racing(driver).path(t), Manifests: manifests, Dir: shortDir(t), Disk: disk, Args: args})
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

// Way leads to the API server.
type Way interface {
	// Kubeconfig writes a kubeconfig that is the same as another one, but leads that way.
	Kubeconfig(from, to string) error
}

// NodeThrough is [Node] with a driver that reaches the API server on another way than the straight one, such as a
// network.Link.
func NodeThrough(t testing.TB, way Way, args ...string) *node.Node {
	t.Helper()
	return start(t, node.Config{Binary: racing(driver).path(t), Kubeconfig: wayFrom(t, way), Dir: shortDir(t), Args: args})
}

// NodeLaunchedThrough is [NodeLaunched] with a driver that reaches the API server on another way than the straight one.
func NodeLaunchedThrough(t testing.TB, way Way, launcher []string, args ...string) *node.Node {
	t.Helper()
	return start(t, node.Config{
		Binary: shipped(driver).path(t), Kubeconfig: wayFrom(t, way), Dir: shortDir(t), Launcher: launcher, Args: args,
	})
}

func wayFrom(t testing.TB, way Way) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig") // It holds a token, and the node's directory must not.
	if err := way.Kubeconfig(kubeconfig(credentialsDir(t)), path); err != nil {
		t.Fatal(err)
	}
	return path
}

// NodeIn is [Node] in another cluster than the shared one, in which deploy/base is installed first. It is for what nobody
// else's API server must suffer.
func NodeIn(t testing.TB, c *cluster.Cluster, args ...string) *node.Node {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig") // It holds a token, and the node's directory must not.
	if err := install(t.Context(), c, path); err != nil {
		t.Fatal(err)
	}
	return start(t, node.Config{Binary: racing(driver).path(t), Kubeconfig: path, Dir: shortDir(t), Args: args})
}
