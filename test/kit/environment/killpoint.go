package environment

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/liveconfig-csi/liveconfig/test/kit/killpoint"
	"github.com/liveconfig-csi/liveconfig/test/kit/node"
)

// NodeOnWire is [Node] with a driver that can be killed between any two changes it makes to the node.
func NodeOnWire(t testing.TB, args ...string) (*node.Node, *killpoint.Killer) {
	t.Helper()
	dir := shortDir(t)
	socket := filepath.Join(dir, "wire.sock")
	wire, err := killpoint.Listen(socket)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- wire.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the kill point: %v", err)
		}
	})
	cfg := node.Config{Binary: racing(driver).path(t), Dir: dir, Args: args, Launcher: []string{launcher().path(t), socket}}
	return start(t, cfg), wire
}
