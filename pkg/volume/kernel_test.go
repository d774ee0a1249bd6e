package volume_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/state"
	"github.com/liveconfig-csi/liveconfig/pkg/volume"
	"github.com/liveconfig-csi/liveconfig/pkg/volumefs"
)

// onKernel makes the volumes real mounts.
func onKernel(c *volume.Config) { c.Mounts = volumefs.New(volumefs.Config{Source: "csi.test"}) }

// mountPoints returns every mount point whose path begins so.
func (n *node) mountPoints(path string) []string {
	n.Helper()
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		n.Fatal(err)
	}
	var points []string
	for line := range strings.Lines(string(table)) {
		if point := strings.Fields(line)[4]; strings.HasPrefix(point, path) {
			points = append(points, point)
		}
	}
	return points
}

// TestStoryOnRealMounts: publish, update, repeat, restart and unpublish as in life.
func TestStoryOnRealMounts(t *testing.T) {
	bubble(t, func(n *node) {
		n.cluster.set(web, "a", "1")
		d := n.start(onKernel)
		r := n.request("config", configMap("web"))
		d.publish(r)
		n.Cleanup(func() { _ = d.Unpublish(n.ctx, r.VolumeID, r.TargetPath) }) // Else TempDir cannot be removed.
		n.wantFiles(r, map[string]string{"a": "1"})
		if err := os.WriteFile(r.TargetPath+"/b", nil, 0o600); !errors.Is(err, syscall.EROFS) {
			n.Errorf("writing into the volume = %v, want %v", err, syscall.EROFS)
		}
		n.cluster.set(web, "a", "2", "b", "new")
		pass(settling)
		n.wantFiles(r, map[string]string{"a": "2", "b": "new"})
		for range 5 {
			d.publish(r)
		}
		d.stop()
		n.cluster.set(web, "a", "3")
		d = n.start(onKernel)
		pass(settling)
		n.wantFiles(r, map[string]string{"a": "3"})
		if got := n.mountPoints(r.TargetPath); len(got) != 1 {
			n.Errorf("mounts on the target = %v, want one", got)
		}
		d.unpublish(r)
		n.wantNothing(d)
		if got := n.mountPoints(r.TargetPath); len(got) != 0 {
			n.Errorf("mounts on the target = %v, want none", got)
		}
	})
}

// TestRevertAfterAWriteThatFailedLate: the write of 2 shows the new files and then fails to remove the old ones. When
// the source goes back to 1, the files must too, although 1 is the last content that was written without an error.
func TestRevertAfterAWriteThatFailedLate(t *testing.T) {
	bubble(t, func(n *node) {
		n.cluster.set(web, "a", "1")
		d := n.start(onKernel)
		r := n.request("config", configMap("web"))
		d.publish(r)
		n.Cleanup(func() { _ = d.Unpublish(n.ctx, r.VolumeID, r.TargetPath) }) // Else TempDir cannot be removed.

		// A file that something is mounted on cannot be removed.
		held := r.TargetPath + "/" + n.generation(r) + "/a"
		if err := unix.Mount("/dev/null", held, "", unix.MS_BIND, ""); err != nil {
			n.Fatal(err)
		}
		n.cluster.set(web, "a", "2")
		pass(settling) // The look that follows finds the old files in their place.
		n.wantFiles(r, map[string]string{"a": "2"})
		problem, err := d.Condition(r.VolumeID, "")
		if !errors.Is(problem, syscall.EBUSY) || err != nil {
			n.Errorf("Condition() = %v, %v, want %v, nil", problem, err, syscall.EBUSY)
		}
		n.cluster.set(web, "a", "1")
		pass(latency)
		for _, point := range n.mountPoints(r.TargetPath + "/") {
			if err := unix.Unmount(point, unix.MNT_DETACH); err != nil {
				n.Fatal(err)
			}
		}
		pass(settling)
		n.wantFiles(r, map[string]string{"a": "1"})
		n.wantProblem(d, r, "")
	})
}

// TestVolumeHasRoomForWhatAnObjectCanHold: each file takes whole pages, and an update needs room beside the old files.
// This is rule 17.
func TestVolumeHasRoomForWhatAnObjectCanHold(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		attributes map[string]string
		keys, size int
	}{
		"one large file":    {attributes: configMap("web"), keys: 1, size: 1 << 20},
		"many small files":  {attributes: configMap("web"), keys: 4000, size: 200},
		"many empty files":  {attributes: configMap("web"), keys: 10_000},
		"one key, two ways": {attributes: configMap("web", api.KeyItems, "[{key: k0, path: a}, {key: k0, path: b}]"), keys: 1, size: 1 << 20},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(n *node) {
				fill := func(b string) map[string]string {
					data := map[string]string{}
					for i := range tt.keys {
						data[fmt.Sprintf("k%d", i)] = strings.Repeat(b, tt.size)
					}
					return data
				}
				n.cluster.set(web, pairs(fill("1"))...)
				d := n.start(onKernel)
				r := n.request("config", tt.attributes)
				d.publish(r)
				n.Cleanup(func() { _ = d.Unpublish(n.ctx, r.VolumeID, r.TargetPath) }) // Else TempDir cannot be removed.
				n.cluster.set(web, pairs(fill("2"))...)
				pass(settling)
				n.wantProblem(d, r, "")
				n.wantNames(r, "2")
			})
		})
	}
}

func pairs(data map[string]string) []string {
	var list []string
	for key, value := range maps.All(data) {
		list = append(list, key, value)
	}
	return list
}

// wantNames checks that every file holds nothing but repetitions of a byte.
func (n *node) wantNames(r state.Record, b string) {
	n.Helper()
	for path, data := range n.files(r.TargetPath) {
		if strings.Trim(data, b) != "" {
			n.Errorf("%s holds something else than %s", path, b)
			return
		}
	}
}
