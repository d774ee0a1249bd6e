package tree

import (
	"io/fs"
	"path"
	"slices"
	"strings"
)

// MountPointMode is the mode of a directory that something is mounted on.
const MountPointMode fs.FileMode = 0o755

// fixedDirs returns the mount points and the directories above them, without the root.
func (t Tree) fixedDirs() map[string]bool {
	if len(t.MountPoints) == 0 {
		return nil
	}
	fixed := map[string]bool{}
	for _, point := range t.MountPoints {
		for d := point; d != "." && !fixed[d]; d = path.Dir(d) {
			fixed[d] = true
		}
	}
	return fixed
}

// FixedDirs returns the mount points and the directories above them with their modes, parents
// before children, without the root.
func (t Tree) FixedDirs() []Dir {
	dirs := make([]Dir, 0, len(t.MountPoints))
	for d := range t.fixedDirs() {
		dirs = append(dirs, Dir{Path: d, Mode: t.ModeOfDir(d)})
	}
	slices.SortFunc(dirs, func(a, b Dir) int { return comparePaths(a.Path, b.Path) })
	return dirs
}

// Dir is a directory of a [Tree].
type Dir struct {
	Path string
	Mode fs.FileMode
}

// ModeOfDir returns the mode of a directory of the tree.
func (t Tree) ModeOfDir(dir string) fs.FileMode {
	if _, found := slices.BinarySearch(t.MountPoints, dir); found {
		return MountPointMode
	}
	return t.DirMode
}

// Blocks reports whether a file cannot be at a path because of a mount point: at it, above or below
// it. The mount points are sorted.
func Blocks(points []string, file string) bool {
	if len(points) == 0 {
		return false
	}
	for d := file; d != "."; d = Parent(d) {
		if _, found := slices.BinarySearch(points, d); found {
			return true
		}
	}
	at, _ := slices.BinarySearch(points, file+"/")
	return at < len(points) && strings.HasPrefix(points[at], file+"/")
}

// HasFileInWay reports whether a path cannot be a mount point because of a file: at it, above or
// below it.
func (t Tree) HasFileInWay(point string) bool {
	at, found := t.find(point)
	if found || at < len(t.Files) && strings.HasPrefix(t.Files[at].Path, point+"/") {
		return true
	}
	for d := Parent(point); d != "."; d = Parent(d) {
		if _, found := t.find(d); found {
			return true
		}
	}
	return false
}

// find returns where in the files a path is, or would be. Paths below it come next.
func (t Tree) find(file string) (at int, found bool) {
	return slices.BinarySearchFunc(t.Files, file, func(f File, file string) int { return comparePaths(f.Path, file) })
}
