package lab

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/liveconfig-csi/liveconfig/test/kit/node"
)

// NodeAsShipped is [Node] with the driver built as `make build` and the image build it: without C code, and so without
// the race detector. It is for what that changes.
func NodeAsShipped(t testing.TB, args ...string) *node.Node {
	t.Helper()
	Cluster(t)
	dir := shortDir(t)
	path := filepath.Join(dir, "liveconfig-driver")
	ctx := context.WithoutCancel(t.Context())
	if err := build(ctx, path, []string{"CGO_ENABLED=0"}, "-trimpath", "-ldflags=-s -w"); err != nil {
		t.Fatal(err)
	}
	return start(t, node.Config{Binary: path, Dir: dir, Args: args})
}
