package lab

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/liveconfig-csi/liveconfig/test/kit/node"
)

// NodeLaunched is [NodeAsShipped] with a driver that is started by a command: see [node.Config.Launcher].
func NodeLaunched(t testing.TB, launcher []string, args ...string) *node.Node {
	t.Helper()
	Cluster(t)
	path := binary(filepath.Join(lab.dir, "shipped"))
	if err := buildShipped(context.WithoutCancel(t.Context()), path); err != nil {
		t.Fatal(err)
	}
	return start(t, node.Config{Binary: path, Dir: shortDir(t), Launcher: launcher, Args: args})
}
