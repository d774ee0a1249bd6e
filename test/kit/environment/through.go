package environment

import (
	"path/filepath"
	"testing"

	"github.com/liveconfig-csi/liveconfig/test/kit/node"
)

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
