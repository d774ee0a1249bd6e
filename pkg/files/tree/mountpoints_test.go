package tree_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/liveconfig-csi/liveconfig/pkg/files/tree"
)

// TestNamesAroundMountPoints: below a directory with a mount point, names stand for less.
func TestNamesAroundMountPoints(t *testing.T) {
	t.Parallel()
	made := grow(t, "a/x", "a/y/z", "a/y/w", "b/c/d", "p/q/s", "p/t/u")
	made.MountPoints = []string{"a/m", "n", "p/q/r"}
	if diff := cmp.Diff([]string{"a/x", "a/y", "b", "p/q/s", "p/t"}, made.Names()); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
	want := []tree.Dir{
		{Path: "a", Mode: 0o750},
		{Path: "a/m", Mode: 0o755},
		{Path: "n", Mode: 0o755},
		{Path: "p", Mode: 0o750},
		{Path: "p/q", Mode: 0o750},
		{Path: "p/q/r", Mode: 0o755},
	}
	made.DirMode = 0o750
	if diff := cmp.Diff(want, made.FixedDirs()); diff != "" {
		t.Errorf("directories (-want +got):\n%s", diff)
	}
	for _, d := range want {
		if !slices.Contains(made.Dirs(), d.Path) {
			t.Errorf("Dirs() = %q, want also %s", made.Dirs(), d.Path)
		}
	}
}

func TestBlocks(t *testing.T) {
	t.Parallel()
	points := []string{"a-b", "a/m", "n"}
	for path, want := range map[string]bool{
		"a": true, "a/m": true, "a/m/x": true, "a/m/x/y": true, "n": true, "n/x": true, "a-b": true, "a-b/c": true,
		"a/mm": false, "a/x": false, "a/x/m": false, "b": false, "nn": false, "a-": false, "m": false,
	} {
		if got := tree.Blocks(points, path); got != want {
			t.Errorf("Blocks(%q, %q) = %t, want %t", points, path, got, want)
		}
	}
}

// TestHasFileInWay: a file is in the way of a mount point if the mount point blocks its path.
func TestHasFileInWay(t *testing.T) {
	t.Parallel()
	files := []string{"a", "b-c", "b/m/x", "b/n", "c/d/e", "d"}
	made := grow(t, files...)
	for _, point := range []string{
		"a", "a/x", "a/x/y", "a-", "aa", "b", "b-", "b-c/d", "b/m", "b/m/x", "b/m/y", "b/n/o/p", "b/nn", "c/d", "c/d/e/f", "c/e", "e",
	} {
		want := slices.ContainsFunc(files, func(file string) bool { return tree.Blocks([]string{point}, file) })
		if got := made.HasFileInWay(point); got != want {
			t.Errorf("with files at %q, HasFileInWay(%q) = %t, want %t", files, point, got, want)
		}
	}
}

// TestMountPointsCountInDigests and no two lists look alike.
func TestMountPointsCountInDigests(t *testing.T) {
	t.Parallel()
	seen := map[string][]string{}
	for _, points := range [][]string{nil, {"a"}, {"a", "b"}, {"ab"}, {"a/b"}} {
		made := grow(t, "x")
		made.MountPoints = points
		if other, found := seen[made.Digest()]; found {
			t.Errorf("%q and %q have one digest", points, other)
		}
		seen[made.Digest()] = points
	}
}
