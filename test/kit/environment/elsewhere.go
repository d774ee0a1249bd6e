package environment

import (
	"path/filepath"
	"testing"

	"github.com/liveconfig-csi/liveconfig/test/kit/cluster"
	"github.com/liveconfig-csi/liveconfig/test/kit/node"
)

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
