package volume_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/state"
)

// inodeOf returns the inode of a file of a volume.
func (n *node) inodeOf(r state.Record, path string) uint64 {
	n.Helper()
	info, err := os.Lstat(filepath.Join(r.TargetPath, path))
	n.must(err)
	return info.Sys().(*syscall.Stat_t).Ino
}

// TestAFileInPlaceComesBackAsItWas: a key, or its whole source, goes and comes back, also while the driver restarts. A
// container that has the file open reads nothing in between, and then the new content.
func TestAFileInPlaceComesBackAsItWas(t *testing.T) {
	t.Parallel()
	ways := map[string]struct{ goes, comes func(n *node) }{
		"a key": {
			func(n *node) { n.set(web, "b", "1") }, func(n *node) { n.set(web, "a", "2", "b", "1") },
		},
		"an optional source": {
			func(n *node) { n.remove(web); pass(3 * time.Second) }, func(n *node) { n.set(web, "a", "2") },
		},
		"a key over a restart": {
			func(n *node) { n.set(web, "b", "1"); n.driver.restart(); pass(latency) },
			func(n *node) { n.set(web, "a", "2", "b", "1"); n.driver.restart() },
		},
	}
	for name, way := range ways {
		bubbleCase(t, name, func(n *node) {
			n.cluster.set(web, "a", "1", "b", "1")
			_, r := n.live(configMap("web", api.KeyUpdatePolicy, "InPlace", api.KeyOptional, "true"))
			before := n.inodeOf(r, "a")
			mounted, err := os.Open(filepath.Join(r.TargetPath, "a"))
			n.must(err)
			defer mounted.Close()
			reads := func(want string) {
				var buffer [16]byte
				count, _ := mounted.ReadAt(buffer[:], 0)
				if got := string(buffer[:count]); got != want {
					n.Errorf("a container that has the file open reads %q, want %q", got, want)
				}
			}
			way.goes(n)
			pass(latency)
			if _, err := os.Lstat(filepath.Join(r.TargetPath, "a")); !os.IsNotExist(err) {
				n.Errorf("the file is still listed: %v", err)
			}
			reads("")
			way.comes(n)
			pass(latency)
			reads("2")
			if after := n.inodeOf(r, "a"); after != before {
				n.Errorf("the inode is %d, want %d", after, before)
			}
		})
	}
}
