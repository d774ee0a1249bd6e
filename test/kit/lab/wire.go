package lab

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/liveconfig-csi/liveconfig/test/kit/node"
	"github.com/liveconfig-csi/liveconfig/test/kit/tripwire"
)

// NodeOnWire is [Node] with a driver that can be killed between any two changes it makes to the node.
func NodeOnWire(t testing.TB, args ...string) (*node.Node, *tripwire.Wire) {
	t.Helper()
	Cluster(t)
	dir := shortDir(t)
	launcher := filepath.Join(dir, "launch")
	if err := buildLauncher(t.Context(), launcher); err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "wire.sock")
	wire, err := tripwire.Listen(socket)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- wire.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the tripwire: %v", err)
		}
	})
	cfg := node.Config{Binary: binary(lab.dir), Dir: dir, Args: args, Launcher: []string{launcher, socket}}
	return start(t, cfg), wire
}

func buildLauncher(ctx context.Context, path string) error {
	repo, err := Repo()
	if err != nil {
		return err
	}
	build := exec.CommandContext(ctx, "go", "build", "-o", path, "./kit/tripwire/launch")
	build.Dir = filepath.Join(repo, "test")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build the tripwire's launcher: %w\n%s", err, out)
	}
	return nil
}
