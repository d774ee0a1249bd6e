package driver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/liveconfig-csi/liveconfig/test/kit/fakekubelet"
	"github.com/liveconfig-csi/liveconfig/test/kit/fixture"
)

// recordOf returns the path of a volume's record, by the name that the driver's records have on every node.
func recordOf(b *fixture.Fixture, pod *corev1.Pod) string {
	return filepath.Join(b.Node.StateDir(), "volumes", sum(fakekubelet.VolumeID(pod, fixture.VolumeName))+".json")
}

func tokensHeld(b *fixture.Fixture) int {
	b.T.Helper()
	files, err := filepath.Glob(filepath.Join(b.Node.StateDir(), "tokens", "*.json"))
	must(b.T, err)
	return len(files)
}

// TestTheStateIsSwept (fault 20) has somebody clear the state directory of whatever is old, all the time, as
// systemd-tmpfiles does after ten days. Nothing fails, and a repeat is all it takes to have everything again.
func TestTheStateIsSwept(t *testing.T) {
	t.Parallel()
	b := fixture.New(t)
	b.SetSecret("key", map[string]string{"n": "0"})
	pod := b.Pod("web", map[string]string{"secret": "key"})
	b.Publish(pod)
	other := b.Pod("other", map[string]string{"secret": "key"})
	var swept atomic.Int64
	ctx, stop := context.WithCancel(t.Context())
	var sweeping sync.WaitGroup
	sweeping.Go(func() { sweep(ctx, b.Node.StateDir(), &swept) })
	for i := 0; i < 30 || swept.Load() < 10; i++ {
		if err := b.TryPublish(t.Context(), other); err != nil {
			t.Errorf("publish: %v", err)
		}
		b.SetSecret("key", map[string]string{"n": fmt.Sprint(i)})
		b.WantFile(pod, "n", fmt.Sprint(i))
		if err := errors.Join(b.TryPublish(t.Context(), pod), b.Node.UnpublishAll(t.Context(), other)); err != nil {
			t.Errorf("repeat and unpublish: %v", err)
		}
	}
	stop()
	sweeping.Wait()
	must(t, b.TryPublish(t.Context(), pod))
	b.Kill()
	b.SetSecret("key", map[string]string{"n": "last"})
	b.Start()
	b.WantFile(pod, "n", "last")
	b.WantMounts(1, "in the end")
}

// sweep removes, until the context ends, every file and every empty directory below dir that has been left alone for a
// while, and counts the files.
func sweep(ctx context.Context, dir string, removed *atomic.Int64) {
	const old = 400 * time.Millisecond // In place of days. A file is not that long on its way to its name.
	ticker := time.NewTicker(old / 10)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		_ = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
			if err != nil {
				return nil //nolint:nilerr // It has gone meanwhile.
			}
			info, err := d.Info()
			if err != nil || time.Since(info.ModTime()) < old {
				return nil //nolint:nilerr // Likewise.
			}
			if os.Remove(path) == nil && !d.IsDir() {
				removed.Add(1)
			}
			return nil
		})
	}
}
