package volumefs_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/liveconfig-csi/liveconfig/pkg/expect"
	"github.com/liveconfig-csi/liveconfig/pkg/files/volumefs"
)

// TestNobodyWritesThroughTheTarget shows rule 49, and the reason why no directory of a subPath can take the place of
// a file (rule 50).
func TestNobodyWritesThroughTheTarget(t *testing.T) {
	t.Parallel()
	g := newGround(t)
	target := g.target("mount")
	v := g.create(t, "one")
	expect.NoError(t, v.Publish(target))
	g.unmountAtEnd(t, target)
	open, err := g.Open(target)
	expect.NoError(t, err)
	defer open.Close()
	subPath := g.target("file") // As a runtime mounts one file by itself.
	mustMake(t, "file", subPath)
	expect.NoError(t, unix.Mount(target+"/key", subPath, "", unix.MS_BIND, ""))
	t.Cleanup(func() { detach(t, subPath) })
	for what, err := range map[string]error{ // Also while the driver has a writable view.
		"overwrite a file":           os.WriteFile(target+"/key", nil, 0o600),
		"make a file":                os.WriteFile(target+"/new", nil, 0o600),
		"make a directory":           os.Mkdir(target+"/dir", 0o700),
		"remove a file":              os.Remove(target + "/key"),
		"rename a file":              os.Rename(target+"/key", target+"/new"),
		"change a mode":              os.Chmod(target+"/key", 0o777),
		"use the view of publishing": rootOf(t, v).WriteFile("key", nil, 0o600),
		"overwrite a subPath":        os.WriteFile(subPath, nil, 0o600),
	} {
		if !errors.Is(err, unix.EROFS) {
			t.Errorf("%s: %v, want %v", what, err, unix.EROFS)
		}
	}
	put(t, open, "key", "two")
	checkFile(t, target+"/key", "two")
}

// TestHowAVolumeIsMounted shows the backing of rule 45.
func TestHowAVolumeIsMounted(t *testing.T) {
	t.Parallel()
	g, target := published(t)
	lines := mountsBelow(t, target)
	if len(lines) != 1 {
		t.Fatalf("mounts at the target = %q, want one", lines)
	}
	mount, super, _ := strings.Cut(lines[0], " - ")
	options := strings.Split(strings.Fields(mount)[5], ",")
	for _, want := range []string{"ro", "nosuid", "nodev", "noexec"} {
		if !slices.Contains(options, want) {
			t.Errorf("mount options = %q, want %s among them", options, want)
		}
	}
	if !strings.HasPrefix(super, "tmpfs "+source+" rw,") {
		t.Errorf("file system = %q, want a tmpfs of %s", super, source)
	}
	for _, want := range []string{"size=1024k", "nr_inodes=64", "mode=755"} {
		if !slices.Contains(strings.Split(strings.Fields(super)[2], ","), want) {
			t.Errorf("options of the file system = %q, want %s among them", super, want)
		}
	}
	if info, err := os.Stat(g.dir); err != nil || info.Mode().Perm() == 0 {
		t.Errorf("the parent = %v, %v, want it as it was", info, err)
	}
}

func TestAWritableViewIsNoLaxer(t *testing.T) {
	t.Parallel()
	g, target := published(t)
	open, err := g.Open(target)
	expect.NoError(t, err)
	defer open.Close()
	for name, v := range map[string]*volumefs.View{"new": g.create(t, "one"), "live": open} {
		dir, err := rootOf(t, v).Open(".")
		expect.NoError(t, err)
		var st unix.Statfs_t
		err = errors.Join(unix.Fstatfs(int(dir.Fd()), &st), dir.Close())
		const want = unix.ST_NOSUID | unix.ST_NODEV | unix.ST_NOEXEC
		if got := st.Flags & (want | unix.ST_RDONLY); got != want || err != nil {
			t.Errorf("flags of the view of a %s volume = %#x, %v, want %#x", name, got, err, want)
		}
	}
	if n := len(mountsBelow(t, g.dir)); n != 1 {
		t.Errorf("%d mounts in sight, want that of the target alone", n)
	}
}

// TestAContainersMountSeesUpdates shows that the mount stays the same (trap 15).
func TestAContainersMountSeesUpdates(t *testing.T) {
	t.Parallel()
	g := newGround(t)
	target, container := g.target("mount"), g.target("container")
	g.publish(t, target, "one")
	mustMake(t, "directory", container)
	expect.NoError(t, unix.Mount(target, container, "", unix.MS_BIND, ""))
	defer detach(t, container)
	update(t, g.restart(), target, "two")
	checkFile(t, container+"/key", "two")
	if err := os.WriteFile(container+"/key", nil, 0o600); !errors.Is(err, unix.EROFS) {
		t.Errorf("the container writes: %v, want %v", err, unix.EROFS)
	}
	expect.NoError(t, g.Unmount(target))
	checkFile(t, container+"/key", "two")
}

// TestPropagation has the kubelet's directory shared, as Bidirectional propagation into the driver's container has it:
// mounts must come and go on the other side, and those of the driver's own must not show there. This is fault 23.
func TestPropagation(t *testing.T) {
	t.Parallel()
	g := newGround(t)
	inside, outside := g.target("inside"), g.target("outside")
	mustMake(t, "directory", inside)
	mustMake(t, "directory", outside)
	mountForeign(t, inside, "kubelet", 0)
	expect.NoError(t, unix.Mount("", inside, "", unix.MS_SHARED, ""))
	expect.NoError(t, unix.Mount(inside, outside, "", unix.MS_BIND, ""))
	defer detach(t, outside)
	g.publish(t, inside+"/mount", "one")
	checkFile(t, outside+"/mount/key", "one")
	checkMounted(t, g.FS, outside+"/mount", true)

	update(t, g.FS, inside+"/mount", "two")
	checkFile(t, outside+"/mount/key", "two")
	if n := len(mountsBelow(t, outside)); n != 2 {
		t.Errorf("%d mounts outside, want the directory and the volume", n)
	}
	expect.NoError(t, g.Unmount(inside+"/mount"))
	checkGone(t, outside+"/mount")
}

func TestPublishWaitsForNoWriter(t *testing.T) {
	t.Parallel()
	g := newGround(t)
	target := g.target("mount")
	v := g.create(t, "one")
	file, err := rootOf(t, v).OpenFile("key", os.O_WRONLY, 0)
	expect.NoError(t, err)
	checkError(t, v.Publish(target), "publish volume at "+target+": mount_setattr: ", "busy")
	checkGone(t, target)
	expect.NoError(t, file.Close())
	if err := v.Publish(target); err != nil {
		t.Fatalf("Publish after the writer has gone = %v", err)
	}
	g.unmountAtEnd(t, target)
	checkFile(t, target+"/key", "one")
}

func TestLimitsHold(t *testing.T) {
	t.Parallel()
	g := newGround(t)
	v, err := g.Create(volumefs.Limits{Bytes: 64 << 10, Inodes: 4})
	expect.NoError(t, err)
	defer v.Close()
	if err := rootOf(t, v).WriteFile("big", make([]byte, 65<<10), 0o600); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("65 KiB into 64 = %v, want %v", err, unix.ENOSPC)
	}
	if err := rootOf(t, v).WriteFile("big", make([]byte, 64<<10), 0o600); err != nil {
		t.Errorf("64 KiB into 64 = %v", err)
	}
	put(t, v, "third", "")
	put(t, v, "fourth", "")
	if err := rootOf(t, v).Mkdir("fifth", 0o700); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("a fifth inode = %v, want %v", err, unix.ENOSPC)
	}
	expect.NoError(t, rootOf(t, v).Remove("fourth"))
	put(t, v, "fifth", "")
}

// TestUmask is not parallel: the umask belongs to the process.
func TestUmask(t *testing.T) {
	for _, umask := range []int{0, 0o077, 0o777} {
		t.Run(fmt.Sprintf("%04o", umask), func(t *testing.T) { checkUmask(t, umask) })
	}
}

func checkUmask(t *testing.T, umask int) {
	t.Helper()
	g := newGround(t)
	old := unix.Umask(umask)
	defer unix.Umask(old)
	target := g.target("mount")
	v := g.create(t, "one")
	if info, err := rootOf(t, v).Stat("."); err != nil || info.Mode() != fs.ModeDir|0o755 {
		t.Errorf("root of a new volume = %v, %v, want mode 0755", info.Mode(), err)
	}
	expect.NoError(t, v.Publish(target))
	if info, err := os.Stat(target); err != nil || info.Mode() != fs.ModeDir|0o755 {
		t.Errorf("root of a live volume = %v, %v, want mode 0755", info.Mode(), err)
	}
	detach(t, target)
	want := fs.ModeDir | 0o750&^fs.FileMode(umask)
	if info, err := os.Stat(target); err != nil || info.Mode() != want {
		t.Errorf("the target below = %v, %v, want %v", info.Mode(), err, want)
	}
}

// TestVolumesStayOutOfSwapWhereTheKernelCan is rule 45: in a user namespace, and before Linux 6.4, it cannot.
func TestVolumesStayOutOfSwapWhereTheKernelCan(t *testing.T) {
	t.Parallel()
	_, target := published(t)
	lines := mountsBelow(t, target)
	if len(lines) != 1 {
		t.Fatalf("mounts at the target = %q, want one", lines)
	}
	_, super, _ := strings.Cut(strings.TrimSpace(lines[0]), " - ")
	got := slices.Contains(strings.Split(strings.Fields(super)[2], ","), "noswap")
	fs, err := unix.Fsopen("tmpfs", unix.FSOPEN_CLOEXEC)
	expect.NoError(t, err)
	defer unix.Close(fs)
	if want := unix.FsconfigSetFlag(fs, "noswap") == nil; got != want { // Does the kernel take the option?
		t.Errorf("file system = %q; noswap = %t, want %t", super, got, want)
	}
}
