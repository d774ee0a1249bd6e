package volume_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/state"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/volume"
)

// mountPoint returns the inode of a directory of the volume, which must be empty.
func (n *node) mountPoint(r state.Record, path string) uint64 {
	n.Helper()
	at := filepath.Join(r.TargetPath, path)
	info, err := os.Lstat(at)
	n.must(err)
	list, err := os.ReadDir(at)
	if err != nil || !info.IsDir() || info.Mode().Perm() != 0o755 || len(list) > 0 {
		n.Errorf("%s is %v with %v (%v), want an empty directory of mode 0755", path, info.Mode(), list, err)
	}
	return info.Sys().(*syscall.Stat_t).Ino
}

// taken returns the notes of Events about keys that are left out.
func (n *node) taken() (notes []string) {
	for _, e := range n.seen.all() {
		if e.Reason == volume.ReasonPathTaken {
			notes = append(notes, e.Note)
		}
	}
	return notes
}

// TestMountPointsStay over updates, repeats and restarts, under every policy that updates, also if keys ask for their places.
func TestMountPointsStay(t *testing.T) {
	t.Parallel()
	for _, policy := range []api.UpdatePolicy{api.UpdateAtomic, api.UpdateReplace, api.UpdateInPlace} {
		bubbleCase(t, string(policy), func(n *node) {
			n.cluster.set(web, "a", "1")
			d, r := n.live(configMap("web", api.KeyMountPoints, "[b, c/d]", api.KeyUpdatePolicy, string(policy)))
			n.wantFiles(r, map[string]string{"a": "1"})
			before := []uint64{n.mountPoint(r, "b"), n.mountPoint(r, "c/d")}
			steps := map[string]func(){
				"an update":           func() { n.set(web, "a", "2"); pass(latency) },
				"a key at the place":  func() { n.set(web, "a", "2", "b", "x", "c", "y"); pass(latency) },
				"a repeat":            func() { d.publish(r) },
				"the driver restarts": func() { d = d.restart(); pass(latency) },
			}
			for _, name := range []string{"an update", "a key at the place", "a repeat", "the driver restarts"} {
				steps[name]()
				n.wantFiles(r, map[string]string{"a": "2"})
				if after := []uint64{n.mountPoint(r, "b"), n.mountPoint(r, "c/d")}; !slices.Equal(before, after) {
					n.Errorf("after %s the inodes are %d, want %d", name, after, before)
				}
			}
			want := `volume "config": left out, because mountPoints keeps the place: ` +
				"key b of configmap default/web at path b, key c of configmap default/web at path c"
			if got := n.taken(); !slices.Equal(got, []string{want, want}) {
				n.Errorf("Events are %q, want one for each run of the driver", got)
			}
		})
	}
}

// TestKeysThatAreLeftOutAtPublish have an Event too, and the volume is published.
func TestKeysThatAreLeftOutAtPublish(t *testing.T) {
	bubble(t, func(n *node) {
		n.cluster.set(web, "a", "1", "b", "2")
		_, r := n.live(configMap("web", api.KeyMountPoints, "[b]"))
		n.wantFiles(r, map[string]string{"a": "1"})
		n.mountPoint(r, "b")
		if got := n.taken(); len(got) != 1 || !strings.Contains(got[0], "key b of configmap default/web at path b") {
			n.Errorf("Events are %q, want one that names the key", got)
		}
	})
}

// TestAMountPointIfAbsent is decided by the content at the publish, and stays what it was: over updates and restarts.
func TestAMountPointIfAbsent(t *testing.T) {
	t.Parallel()
	for _, policy := range []api.UpdatePolicy{api.UpdateAtomic, api.UpdateReplace, api.UpdateInPlace} {
		bubbleCase(t, string(policy), func(n *node) {
			n.cluster.set(web, "a", "1", "has", "1")
			d, r := n.live(configMap("web", api.KeyUpdatePolicy, string(policy),
				api.KeyMountPoints, "[{path: has, ifAbsent: true}, {path: lacks, ifAbsent: true}, {path: d/e, ifAbsent: true}]"))
			n.wantFiles(r, map[string]string{"a": "1", "has": "1"})
			before := []uint64{n.mountPoint(r, "lacks"), n.mountPoint(r, "d/e")}
			both := func() { n.set(web, "a", "2", "has", "2", "lacks", "2"); pass(latency) }
			both()
			n.wantFiles(r, map[string]string{"a": "2", "has": "2"})
			n.set(web, "a", "3")
			pass(latency)
			d = d.restart()
			n.wantFiles(r, map[string]string{"a": "3"})
			both()
			n.wantFiles(r, map[string]string{"a": "2", "has": "2"})
			d.publish(r)
			pass(2 * time.Second)
			n.wantFiles(r, map[string]string{"a": "2", "has": "2"})
			if after := []uint64{n.mountPoint(r, "lacks"), n.mountPoint(r, "d/e")}; !slices.Equal(before, after) {
				n.Errorf("the inodes are %d, want %d", after, before)
			}
			if got := n.taken(); len(got) == 0 || !strings.Contains(got[0], "key lacks of configmap default/web at path lacks") {
				n.Errorf("Events are %q, want one that names the key", got)
			}
			n.wantProblem(r, "")
		})
	}
}
