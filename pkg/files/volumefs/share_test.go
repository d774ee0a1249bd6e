package volumefs_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/liveconfig-csi/liveconfig/pkg/expect"
	"github.com/liveconfig-csi/liveconfig/pkg/files/volumefs"
)

// shared returns a view of a volume that is published on two targets, which it returns too.
func shared(t *testing.T, g *ground) (view *volumefs.View, first, second string) {
	t.Helper()
	first, second = g.target("first"), g.target("second")
	g.publish(t, first, "one")
	view, err := g.Open(first)
	expect.NoError(t, err)
	t.Cleanup(func() { _ = view.Close() })
	mount, err := view.Share(first, second)
	expect.NoError(t, err)
	g.unmountAtEnd(t, second)
	if found, err := g.Find(second); err != nil || found != mount {
		t.Errorf("Find(%s) = %v, %v, want %v", second, found, err, mount)
	}
	return view, first, second
}

// TestASharedVolumeIsOneFileSystem with a mount for each target, which lives as long as its target
// does.
func TestASharedVolumeIsOneFileSystem(t *testing.T) {
	t.Parallel()
	g := newGround(t)
	view, first, second := shared(t, g)
	mounts := map[string]volumefs.Mount{}
	for _, target := range []string{first, second} {
		mount, err := g.Find(target)
		expect.NoError(t, err)
		mounts[target] = mount
	}
	if mounts[first] == mounts[second] || !mounts[first].SharesFilesWith(mounts[second]) {
		t.Errorf("mounts = %v, want two of one file system", mounts)
	}
	if g.IsAt(first, mounts[second]) {
		t.Error("the second mount is at the first target")
	}
	put(t, view, "key", "two")
	for _, target := range []string{first, second} {
		checkFile(t, target+"/key", "two")
		checkMounted(t, g.FS, target, true)
		if err := os.WriteFile(target+"/key", nil, 0o600); !errors.Is(err, unix.EROFS) {
			t.Errorf("write through %s = %v, want %v", target, err, unix.EROFS)
		}
		if lines := mountsBelow(t, target); len(lines) != 1 {
			t.Errorf("mounts at %s = %q, want one", target, lines)
		}
		if !g.IsAt(target, mounts[target]) {
			t.Errorf("IsAt(%s) = false, want true", target)
		}
	}
	expect.NoError(t, g.Unmount(first))
	put(t, view, "key", "three")
	checkFile(t, second+"/key", "three")
	update(t, g.restart(), second, "four") // A new run of the driver opens it by any target.
	checkFile(t, second+"/key", "four")
}

// TestAShareIsMountedAsAVolume: with the same flags, and independent of the first mount.
func TestAShareIsMountedAsAVolume(t *testing.T) {
	t.Parallel()
	g := newGround(t)
	expect.NoError(t, unix.Mount(g.dir, g.dir, "", unix.MS_BIND, ""))
	t.Cleanup(func() { _ = unix.Unmount(g.dir, unix.MNT_DETACH) })
	if err := unix.Mount("", g.dir, "", unix.MS_SHARED, ""); err != nil { // As in a container with Bidirectional propagation.
		t.Fatal(err)
	}
	_, first, second := shared(t, g)
	peers := map[string]bool{}
	for _, target := range []string{first, second} {
		fields := strings.Fields(strings.Join(mountsBelow(t, target), ""))
		if fields[5] != "ro,nosuid,nodev,noexec,relatime" {
			t.Errorf("%s is mounted %s, want read-only without set-uid, devices and programs", target, fields[5])
		}
		if !strings.HasPrefix(fields[6], "shared:") {
			t.Fatalf("%s has the propagation %s, want shared, as its parent", target, fields[6])
		}
		peers[fields[6]] = true
	}
	if len(peers) != 2 {
		t.Errorf("peer groups = %v, want one for each target", peers)
	}
}

// TestShareRefuses what Publish refuses, and whatever is not the view's volume any more.
func TestShareRefuses(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		kind    string
		prepare func(t *testing.T, g *ground, first string)
		want    error
	}{
		"a target that is taken": {"full directory", func(*testing.T, *ground, string) {}, nil},
		"a symlink":              {"symlink", func(*testing.T, *ground, string) {}, nil},
		"a volume that is gone": {"nothing", func(t *testing.T, g *ground, first string) {
			t.Helper()
			expect.NoError(t, g.Unmount(first))
		}, unix.ENOENT},
		"another volume in its place": {"nothing", func(t *testing.T, g *ground, first string) {
			t.Helper()
			expect.NoError(t, g.Unmount(first))
			g.publish(t, first, "other")
		}, volumefs.ErrNotMounted},
		"a directory of the volume in its place": {"nothing", func(t *testing.T, g *ground, first string) {
			t.Helper()
			other := g.target("other")
			mustMake(t, "directory", other)
			expect.NoError(t, unix.Mount(first, other, "", unix.MS_BIND, ""))
			t.Cleanup(func() { _ = unix.Unmount(other, unix.MNT_DETACH) })
			expect.NoError(t, g.Unmount(first))
			mustMake(t, "directory", first)
			expect.NoError(t, unix.Mount(other+"/dir", first, "", unix.MS_BIND, ""))
			t.Cleanup(func() { _ = unix.Unmount(first, unix.MNT_DETACH) })
		}, volumefs.ErrNotMounted},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGround(t)
			first, second := g.target("first"), g.target("second")
			g.publish(t, first, "one")
			view, err := g.Open(first)
			expect.NoError(t, err)
			defer view.Close()
			expect.NoError(t, rootOf(t, view).Mkdir("dir", 0o755))
			tc.prepare(t, g, first)
			mustMake(t, tc.kind, second)
			before := mountsBelow(t, g.dir)
			if _, err := view.Share(first, second); err == nil || tc.want != nil && !errors.Is(err, tc.want) {
				t.Errorf("Share = %v, want %v", err, tc.want)
			}
			if after := mountsBelow(t, g.dir); len(after) != len(before) {
				t.Errorf("mounts = %q, want %q", after, before)
			}
			if tc.kind == "nothing" {
				checkGone(t, second)
			}
		})
	}
}

// TestNoMountIsEqualToNone: not even to another one that is not known.
func TestNoMountIsEqualToNone(t *testing.T) {
	t.Parallel()
	var none volumefs.Mount
	if none.SharesFilesWith(none) {
		t.Error("two mounts that are not known share their files")
	}
	g := newGround(t)
	if mustMake(t, "directory", g.target("dir")); g.IsAt(g.target("dir"), none) {
		t.Error("a directory is a mount that is not known")
	}
	if _, err := g.Find(g.target("dir")); !errors.Is(err, volumefs.ErrNotMounted) {
		t.Errorf("Find of a directory: %v, want %v", err, volumefs.ErrNotMounted)
	}
}
