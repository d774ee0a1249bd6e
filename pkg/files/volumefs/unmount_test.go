package volumefs_test

import (
	"io"
	"os"
	"testing"

	"github.com/liveconfig-csi/liveconfig/pkg/files/volumefs"
)

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
	must(t, err)
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
	must(t, err)
	defer old.Close()
	must(t, g.Unmount(target))
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
	must(t, g.Unmount(target))
	mustMake(t, "full directory", target)
	for _, v := range []*volumefs.FS{g.FS, g.restart()} {
		checkMounted(t, v, target, false)
		checkNotOpened(t, v, target)
	}
	must(t, os.RemoveAll(target))
}
