// Package atomicdir writes a [tree.Tree] into a volume's root directory, over whatever is there: an
// older tree, nothing, or what a process that was killed halfway has left. It works from what it
// finds on disk. Its caller may store what an [Atomic] left, see [Known].
//
// The three writers differ in the last step, by which a change becomes visible: [Atomic] swaps one
// symlink for all files, [Replace] renames each file into place, [InPlace] rewrites each file in
// its inode. They compare and clean up alike, and they make everything that can run out of space
// before they touch what is visible.
//
// The package does not know where trees come from, how the directory is mounted, which programs
// read it, or when to write.
package atomicdir

import (
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/liveconfig-csi/liveconfig/pkg/files/layout"
	"github.com/liveconfig-csi/liveconfig/pkg/files/tree"
)

// Writer brings a directory to the state of a tree.
type Writer interface {
	// Write makes root hold the tree's files, directories, modes and owners and nothing else. The
	// names in root that start with two dots belong to the writer.
	//
	// changed reports whether anything was touched that readers can see: false means that every
	// byte, mode, owner and name was right already. An error before the change became visible
	// leaves the old files as they were, and one after it (what is no longer needed cannot be
	// removed) the new ones complete; the next Write puts right what either left behind.
	//
	// root stays the caller's. Calls for one directory must not overlap.
	Write(root *os.File, t tree.Tree) (changed bool, err error)
}

var (
	_ Writer = Atomic{}
	_ Writer = Replace{}
	_ Writer = InPlace{}
)

// The names in a volume's root that are not files of the tree. All start with the reserved prefix.
const (
	reserved = layout.Reserved
	// dataLink names the live generation; dataTemp becomes it by rename.
	dataLink = layout.DataLink
	dataTemp = dataLink + "_tmp"
	// tempPrefix starts the names of what waits for its rename.
	tempPrefix = "..tmp-"
)

func isReserved(name string) bool { return strings.HasPrefix(name, reserved) }

// step is one numbered step of a writer's doc comment.
type step[W any] struct {
	// doing completes «it went wrong to …» in error messages.
	doing string
	run   func(W) error
}

// runSteps stops at the first step that fails.
func runSteps[W any](w W, steps ...step[W]) error {
	for _, s := range steps {
		if err := s.run(w); err != nil {
			return fmt.Errorf("%s: %w", s.doing, err)
		}
	}
	return nil
}

// askForRoom asks for room, where there is somebody to askForRoom.
func askForRoom(room func() error) error {
	if room == nil {
		return nil
	}
	return room()
}

// check refuses what would leave the root, what would pass for one of the writer's own names, and
// modes that a file cannot have, which would never compare equal.
func check(t tree.Tree) error {
	if t.DirMode&^(fs.ModePerm|fs.ModeSetgid) != 0 {
		return fmt.Errorf("directory mode %v has more than permission bits and setgid", t.DirMode)
	}
	for _, f := range t.Files {
		switch {
		case f.Path == "." || !fs.ValidPath(f.Path):
			return fmt.Errorf("path %q is not a clean relative path", f.Path)
		case isReserved(f.Path):
			return fmt.Errorf("path %q starts with %q, which is reserved", f.Path, reserved)
		case f.Mode&^fs.ModePerm != 0:
			return fmt.Errorf("file %q: mode %v has more than permission bits", f.Path, f.Mode)
		case len(f.Source) > tree.MaxSource:
			return fmt.Errorf("file %q: its source has %d bytes, and the most is %d", f.Path, len(f.Source), tree.MaxSource)
		case tree.Blocks(t.MountPoints, f.Path):
			return fmt.Errorf("path %q is in the way of a mount point", f.Path)
		}
	}
	return checkMountPoints(t.MountPoints)
}

func checkMountPoints(points []string) error {
	if !slices.IsSorted(points) {
		return fmt.Errorf("mount points %q are not sorted", points)
	}
	for _, p := range points {
		if p == "." || !fs.ValidPath(p) || isReserved(p) {
			return fmt.Errorf("mount point %q is not a clean relative path, or reserved", p)
		}
	}
	return nil
}
