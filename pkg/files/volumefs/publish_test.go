package volumefs_test

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/liveconfig-csi/liveconfig/pkg/expect"
	"github.com/liveconfig-csi/liveconfig/pkg/files/volumefs"
)

func TestPublishShowsTheVolumeAtOnce(t *testing.T) {
	t.Parallel()
	g := newGround(t)
	target := g.target("mount")
	v := g.create(t, "one")
	checkGone(t, target)
	checkMounted(t, g.FS, target, false)
	expect.NoError(t, v.Publish(target))
	g.unmountAtEnd(t, target)
	checkFile(t, target+"/key", "one")
	checkMounted(t, g.FS, target, true)
	checkMounted(t, g.FS, target+"/", true)
	for range 2 { // Closing twice is harmless, and closing leaves the volume where it is.
		expect.NoError(t, v.Close())
	}
	checkFile(t, target+"/key", "one")
	checkMounted(t, g.FS, target, true)
	if info, err := os.Stat(target); err != nil || info.Mode() != fs.ModeDir|0o755 {
		t.Errorf("the volume's root = %v, %v, want a directory of mode 0755", info.Mode(), err)
	}
}

func TestPublishTakesAnEmptyDirectory(t *testing.T) {
	t.Parallel()
	g := newGround(t)
	target := g.target("mount")
	mustMake(t, "directory", target)
	g.publish(t, target+"/", "one")
	checkFile(t, target+"/key", "one")
}

func TestPublishRefuses(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ kind, name, want string }{
		"a symlink":                          {"symlink", "mount", "the target is a symbolic link"},
		"a symlink with a slash":             {"symlink", "mount/", "the target is a symbolic link"},
		"a file":                             {"file", "mount", "the target is not a directory"},
		"a directory with something in it":   {"full directory", "mount", "not empty"},
		"a target whose parent is not there": {"nothing", "none/mount", "no such file or directory"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGround(t)
			target := g.target("mount")
			mustMake(t, tc.kind, target)
			before, _ := os.Lstat(target)
			v := g.create(t, "one")
			checkError(t, v.Publish(g.dir+"/"+tc.name), "publish volume at "+filepath.Clean(g.dir+"/"+tc.name)+": ", tc.want)
			after, _ := os.Lstat(target)
			if before != nil && !os.SameFile(before, after) {
				t.Errorf("what was at the target = %v, want it as it was, %v", after, before)
			}
			if tc.kind == "full directory" {
				checkFile(t, target+"/leftover", "precious")
			}
			elsewhere := g.target("elsewhere") // The view is as good as before.
			expect.NoError(t, v.Publish(elsewhere))
			g.unmountAtEnd(t, elsewhere)
			checkFile(t, elsewhere+"/key", "one")
		})
	}
}

// TestPublishRefusesASecondVolume is fault 12.
func TestPublishRefusesASecondVolume(t *testing.T) {
	t.Parallel()
	g, target := published(t)
	err := g.create(t, "two").Publish(target)
	if !errors.Is(err, volumefs.ErrMounted) {
		t.Errorf("Publish = %v, want %v", err, volumefs.ErrMounted)
	}
	checkFile(t, target+"/key", "one")
}

// TestAViewIsPublishedOnce, and only as long as its volume is neither published nor its view closed.
func TestAViewIsPublishedOnce(t *testing.T) {
	t.Parallel()
	g := newGround(t)
	target, other := g.target("mount"), g.target("other")
	v := g.create(t, "one")
	expect.NoError(t, v.Publish(target))
	g.unmountAtEnd(t, target)
	checkError(t, v.Publish(other), "publish volume at "+other+": ", "published already")
	live, err := g.Open(target)
	expect.NoError(t, err)
	defer live.Close()
	checkError(t, live.Publish(other), "publish volume at "+other+": ", "this is a view of a live volume")
	closed := g.create(t, "one")
	expect.NoError(t, closed.Close())
	if err := closed.Publish(other); !errors.Is(err, os.ErrClosed) {
		t.Errorf("Publish = %v, want %v", err, os.ErrClosed)
	}
	if err := closed.Dir.Sync(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("write = %v, want %v", err, os.ErrClosed)
	}
	checkFile(t, target+"/key", "one")
	checkGone(t, other)
}

func TestCreateRefusesLimits(t *testing.T) {
	t.Parallel()
	g := newGround(t)
	for _, l := range []volumefs.Limits{{}, {Bytes: 1}, {Inodes: 1}, {Bytes: -1, Inodes: 1}, {Bytes: 1, Inodes: -1}} {
		v, err := g.Create(l)
		checkError(t, err, "create volume: limits of ", "both must be positive")
		if v != nil {
			t.Errorf("Create(%+v) returned a view", l)
		}
	}
}

// TestUnmountTakesVolumeAndTargetAway shows rule 51. This is fault 14.
func TestUnmountTakesVolumeAndTargetAway(t *testing.T) {
	t.Parallel()
	g := newGround(t)
	target, other := g.target("mount"), g.target("other")
	g.publish(t, target, "one")
	g.publish(t, other, "two")
	for range 3 { // Once or more is the same.
		if err := g.Unmount(target); err != nil {
			t.Errorf("Unmount = %v", err)
		}
		checkGone(t, target)
		checkMounted(t, g.FS, target, false)
		checkNotOpened(t, g.FS, target)
	}
	checkFile(t, other+"/key", "two")
}

// TestOpenFilesOutliveTheVolume is fault 23.
func TestOpenFilesOutliveTheVolume(t *testing.T) {
	t.Parallel()
	g, target := published(t)
	file, err := os.Open(target + "/key")
	expect.NoError(t, err)
	defer file.Close()
	if err := g.Unmount(target); err != nil {
		t.Fatalf("Unmount while a file is open = %v", err)
	}
	checkGone(t, target)
	if got, err := io.ReadAll(file); string(got) != "one" || err != nil {
		t.Errorf("the open file = %q, %v, want its content", got, err)
	}
}

// TestANewVolumeHasNothingOfTheOldOne is fault 17.
func TestANewVolumeHasNothingOfTheOldOne(t *testing.T) {
	t.Parallel()
	g := newGround(t)
	target := g.target("mount")
	g.publish(t, target, "old")
	old, err := g.Open(target)
	expect.NoError(t, err)
	defer old.Close()
	expect.NoError(t, g.Unmount(target))
	g.publish(t, target, "new")
	// Somebody who came in before is still in the old one, and leaves no trace in the new one.
	_ = rootOf(t, old).WriteFile("stale", []byte("stale"), 0o600)
	checkGone(t, target+"/stale")
	checkFile(t, target+"/key", "new")
	checkMounted(t, g.FS, target, true)
}

// TestADirectoryInTheVolumesPlaceIsNotTheVolume is fault 16.
func TestADirectoryInTheVolumesPlaceIsNotTheVolume(t *testing.T) {
	t.Parallel()
	g, target := published(t)
	expect.NoError(t, g.Unmount(target))
	mustMake(t, "full directory", target)
	for _, v := range []*volumefs.FS{g.FS, g.restart()} {
		checkMounted(t, v, target, false)
		checkNotOpened(t, v, target)
	}
	expect.NoError(t, os.RemoveAll(target))
}
