package lab

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/liveconfig-csi/liveconfig/test/kit/node"
)

// NodeAsShipped is [Node] with the driver built as `make build` and the image build it: without C code, and so without
// the race detector. It is for what that changes, which is also how fast it starts and how much memory it takes.
func NodeAsShipped(t testing.TB, args ...string) *node.Node {
	t.Helper()
	Cluster(t)
	path := binary(filepath.Join(lab.dir, "shipped"))
	if err := buildShipped(context.WithoutCancel(t.Context()), path); err != nil {
		t.Fatal(err)
	}
	return start(t, node.Config{Binary: path, Dir: shortDir(t), Args: args})
}

// buildShipped builds the driver at path unless that was done.
func buildShipped(ctx context.Context, path string) error {
	lab.mu.Lock()
	defer lab.mu.Unlock()
	if lab.built {
		return nil
	}
	err := build(ctx, path, []string{"CGO_ENABLED=0"}, "-trimpath", "-ldflags=-s -w")
	lab.built = err == nil
	return err
}
