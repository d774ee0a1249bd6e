package volume_test

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/access"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/state"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/volume"
	"github.com/liveconfig-csi/liveconfig/pkg/files/volumefs"
)

// onKernel makes the volumes real mounts.
func onKernel(c *volume.Config) { below(os.TempDir())(c) }

// below makes the volumes below a directory real mounts.
func below(root string) func(*volume.Config) {
	return func(c *volume.Config) {
		mounts := volumefs.New(volumefs.Config{Root: root, Source: "csi.test"})
		c.Mounts, c.Views = mounts, volume.OnTmpfs(mounts)
	}
}

// mountPoints returns every mount point whose path begins so.
func (n *node) mountPoints(path string) []string {
	n.Helper()
	table, err := os.ReadFile("/proc/self/mountinfo")
	n.must(err)
	var points []string
	for line := range strings.Lines(string(table)) {
		if point := strings.Fields(line)[4]; strings.HasPrefix(point, path) {
			points = append(points, point)
		}
	}
	return points
}

// linked sets up a link to the node's directory, and a request for a volume of the ConfigMap web, which holds a=1.
func (n *node) linked() (link string, r state.Record) {
	n.Helper()
	n.cluster.set(web, "a", "1")
	link = n.dir + "-link"
	n.must(os.Symlink(n.dir, link))
	n.Cleanup(func() { _ = os.Remove(link) })
	return link, n.request("config", configMap("web"))
}

// TestTheKubeletsDirectoryBehindALink: its path may be a link, to another disk for instance.
func TestTheKubeletsDirectoryBehindALink(t *testing.T) {
	bubble(t, func(n *node) {
		link, r := n.linked()
		place := r.TargetPath
		r.TargetPath = link + strings.TrimPrefix(place, n.dir)
		d := n.start(below(link))
		d.publish(r)
		d.stop()
		n.cluster.set(web, "a", "2")
		d = n.start(below(link))
		pass(settling)
		d.publish(r)
		n.wantFiles(r, map[string]string{"a": "2"})
		n.wantRecords(r)
		n.wantProblem(r, "")
		wantSame(n, "mounts on the target", []string{place}, n.mountPoints(place))
		d.unpublish(r)
		n.wantNothing(d)
		wantSame(n, "mounts on the target", nil, n.mountPoints(place))
	})
}

// TestTheKubeletsDirectoryByAnotherName: after a restart it is named by a link to it. The target on record is nowhere then,
// which does not keep the volume from being unmounted by its new name.
func TestTheKubeletsDirectoryByAnotherName(t *testing.T) {
	bubble(t, func(n *node) {
		link, r := n.linked()
		d := n.start(onKernel)
		d.publish(r)
		d.stop()
		d = n.start(below(link))
		d.wantRefused(n.request("other", configMap("web")), volume.Invalid)
		for range 2 {
			n.must(d.Unpublish(n.ctx, r.VolumeID, link+strings.TrimPrefix(r.TargetPath, n.dir)))
		}
		n.wantNothing(d)
		wantSame(n, "mounts on the target", nil, n.mountPoints(r.TargetPath))
	})
}

// TestALinkOnTheWayToATarget has a link to another pod's volume in place of a directory of a pod. Nothing is published
// through it, and the pod can be deleted: the kubelet repeats an unpublish that fails for ever.
func TestALinkOnTheWayToATarget(t *testing.T) {
	t.Parallel()
	tests := map[string]func(target string) (link, to string){
		"the target is one": func(target string) (link, to string) { return target, "theirs/mount" },
		"its directory is":  func(target string) (link, to string) { return filepath.Dir(target), "theirs" },
	}
	for name, where := range tests {
		bubbleCase(t, name, func(n *node) {
			n.foreign = true
			n.cluster.set(web, "a", "1")
			d := n.start(onKernel)
			theirs, mine := n.request("theirs", configMap("web")), n.request("mine", configMap("web"))
			d.publish(theirs)
			link, to := where(mine.TargetPath)
			n.replaceByLink(link, filepath.Join(filepath.Dir(filepath.Dir(mine.TargetPath)), to))

			text := n.wantKind(d.Publish(n.ctx, mine, access.Token{}), volume.Invalid)
			if want := " is a symbolic link, which is not followed"; strings.Count(text, mine.TargetPath) != 1 || !strings.Contains(text, want) {
				n.Errorf("Publish() says %q, want the target once and %q", text, want)
			}
			n.wantRecords(theirs)
			for range 2 {
				d.unpublish(mine)
			}
			n.wantLinkAndVolume(link, theirs)
		})
	}
}

// TestALinkThatComesLater comes when a volume is live. The volume is not found any more, but everything about it is
// forgotten, and nothing that the link leads to is touched.
func TestALinkThatComesLater(t *testing.T) {
	bubble(t, func(n *node) {
		n.foreign = true
		n.cluster.set(web, "a", "1")
		d := n.start(onKernel)
		theirs, mine := n.request("theirs", configMap("web")), n.request("mine", configMap("web"))
		d.publish(theirs)
		d.publish(mine)
		dir := filepath.Dir(mine.TargetPath)
		n.must(os.Rename(dir, dir+"-moved"))
		n.Cleanup(func() {
			_ = d.Unpublish(n.ctx, theirs.VolumeID, theirs.TargetPath)
			_ = unix.Unmount(dir+"-moved/mount", unix.MNT_DETACH)
		})
		n.replaceByLink(dir, filepath.Dir(theirs.TargetPath))
		d.publish(mine) // A repeat does not harm the running pod.
		n.set(web, "a", "2")
		n.wantProblem(mine, "open volume at "+mine.TargetPath+": "+dir+
			" is a symbolic link, which is not followed: remove it, or have a bind mount in its place")
		d.unpublish(mine)
		n.wantRecords(theirs)
		wantSame(n, "Volumes()", 1, d.Volumes())
		if want := "The driver unmounted nothing"; !strings.Contains(n.logs.String(), want) {
			n.Errorf("the log does not say %q", want)
		}
		n.wantFiles(theirs, map[string]string{"a": "2"})
		wantSame(n, "mounts where the directory went", 1, len(n.mountPoints(dir+"-moved")))
	})
}

// replaceByLink makes a link in place of an empty directory, or of nothing.
func (n *node) replaceByLink(link, to string) {
	n.Helper()
	if err := os.Remove(link); err != nil && !errors.Is(err, fs.ErrNotExist) {
		n.Fatal(err)
	}
	n.must(os.Symlink(to, link))
}

// wantLinkAndVolume checks that a link is as it was, and the volume that it leads to as well.
func (n *node) wantLinkAndVolume(link string, r state.Record) {
	n.Helper()
	if info, err := os.Lstat(link); err != nil || info.Mode().Type() != fs.ModeSymlink {
		n.Errorf("%s = %v, %v, want a link", link, info, err)
	}
	n.wantFiles(r, map[string]string{"a": "1"})
	wantSame(n, "mounts on the other target", 1, len(n.mountPoints(r.TargetPath)))
}

// TestRevertAfterAWriteThatFailedLate: the write of 2 shows the new files and then fails to remove the old ones. When
// the source goes back to 1, the files must too, although 1 is the last content that was written without an error.
func TestRevertAfterAWriteThatFailedLate(t *testing.T) {
	bubble(t, func(n *node) {
		n.cluster.set(web, "a", "1")
		_, r := n.live(configMap("web"), onKernel)

		// A file that something is mounted on cannot be removed.
		held := r.TargetPath + "/" + n.generation(r) + "/a"
		n.must(unix.Mount("/dev/null", held, "", unix.MS_BIND, ""))
		n.cluster.set(web, "a", "2")
		pass(settling) // The look that follows finds the old files in their place.
		n.wantFiles(r, map[string]string{"a": "2"})
		n.wantProblemIs(r, syscall.EBUSY)
		n.cluster.set(web, "a", "1")
		pass(latency)
		for _, point := range n.mountPoints(r.TargetPath + "/") {
			n.must(unix.Unmount(point, unix.MNT_DETACH))
		}
		pass(settling)
		n.wantShown(r, map[string]string{"a": "1"}, "")
	})
}

// TestVolumeHasRoomForWhatAnObjectCanHold: each file takes whole pages, and an update, which may exchange every name and every
// byte, needs room beside the old files. This is rule 17.
func TestVolumeHasRoomForWhatAnObjectCanHold(t *testing.T) {
	tests := map[string]struct {
		attributes map[string]string
		keys, size int
	}{
		"one large file":              {keys: 1, size: 1 << 20},
		"a thousand files":            {keys: 1000, size: 1 << 20 / 1000},
		"as many files as there are":  {keys: 1 << 14, size: 1 << 20 >> 14},
		"255 pages and a little more": {keys: 256, size: 4095},
		"one key, two ways":           {attributes: configMap("web", api.KeyItems, "[{key: k, path: a}, {key: k, path: b}]"), keys: 1, size: 1 << 20},
	}
	for _, policy := range []api.UpdatePolicy{api.UpdateAtomic, api.UpdateReplace, api.UpdateInPlace} {
		for name, tt := range tests {
			check := func(n *node) {
				fill := func(b string) map[string]string {
					data := map[string]string{}
					for i := range tt.keys {
						data[fmt.Sprint("k", b, "-", i)] = strings.Repeat(b, tt.size)
					}
					if tt.attributes != nil {
						data = map[string]string{"k": strings.Repeat(b, tt.size)}
					}
					return data
				}
				attributes := configMap("web")
				maps.Copy(attributes, tt.attributes)
				attributes[api.KeyUpdatePolicy] = string(policy)
				n.cluster.set(web, pairs(fill("1"))...)
				_, r := n.live(attributes, onKernel)
				n.set(web, pairs(fill("2"))...)
				n.wantProblem(r, "")
				n.wantNames(r, "2")
				if got := len(n.files(r.TargetPath)); tt.attributes == nil && got != tt.keys {
					n.Errorf("%d files, want %d", got, tt.keys)
				}
			}
			t.Run(fmt.Sprintf("%s, %s", name, policy), func(t *testing.T) {
				if tt.keys > 1000 { // That takes a while, so once must do.
					bubbleShared(t, check)
					return
				}
				bubble(t, check)
			})
		}
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
