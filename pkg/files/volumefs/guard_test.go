package volumefs_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/liveconfig-csi/liveconfig/pkg/expect"
	"github.com/liveconfig-csi/liveconfig/pkg/files/volumefs"
)

// TestGuardOfManyVolumes counts what the calls of a publish and of an update make on the heap, on a node with one volume and
// with fifty: as much. A call that grows reads the mount table, which is as long as the node has mounts: all volumes
// together then cost the square of their number.
func TestGuardOfManyVolumes(t *testing.T) { // Not parallel: whatever else is made would be counted.
	const few, many = 1, 50
	g := newGround(t)
	first := g.volume(t, 0)
	kept, err := g.Open(first)
	expect.NoError(t, err)
	defer kept.Close()
	calls := map[string]struct {
		most float64
		do   func() error
	}{
		"Open": {22, func() error {
			view, err := g.Open(first)
			if err != nil {
				return err
			}
			return view.Close()
		}},
		"Usage": {11, func() error { _, err := g.Usage(first); return err }},
		"IsAt": {2, func() error {
			if !g.IsAt(first, kept.Mount()) {
				return errors.New("the volume is not where it was published")
			}
			return nil
		}},
		"Mounted, where nothing is": {9, func() error {
			mounted, err := g.Mounted(g.target("nothing"))
			if mounted {
				return errors.New("there is a volume")
			}
			return err
		}},
		"Create": {23, func() error {
			view, err := g.Create(limits())
			if err != nil {
				return err
			}
			return view.Close()
		}},
	}
	for mounts := few; mounts <= many; mounts += many - few {
		for i := few; i < mounts; i++ {
			g.volume(t, i)
		}
		for name, c := range calls {
			var failed error
			got := testing.AllocsPerRun(50, func() { failed = errors.Join(failed, c.do()) })
			if got > c.most || got < c.most/2 || failed != nil {
				t.Errorf("%s makes %v objects on the heap beside %d volumes, want %v (%v)", name, got, mounts, c.most, failed)
			}
		}
	}
}

// volume publishes an empty volume by number, and takes it away when the test ends.
func (g *ground) volume(t *testing.T, i int) (target string) {
	t.Helper()
	target = filepath.Join(mustMakeAll(t, g.target(fmt.Sprint(i))), "mount")
	view, err := g.Create(volumefs.Limits{Bytes: 1 << 20, Inodes: 64})
	expect.NoError(t, err)
	expect.NoError(t, errors.Join(view.Publish(target), view.Close()))
	t.Cleanup(func() {
		if err := g.Unmount(target); err != nil {
			t.Error(err)
		}
	})
	return target
}
