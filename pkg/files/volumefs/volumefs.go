// Package volumefs gives every volume its own tmpfs: it makes one detached from the file tree,
// publishes it read-only at a target path, shares it with other target paths, opens a published one
// for writing, and takes it away again.
//
// The package remembers nothing between calls; a caller may keep a [View]. A published volume is
// found again by its target path alone, so a driver that was killed goes on with what the kernel
// holds.
//
// The package does not know what is in a volume, which pod mounts it, or how files are written: a
// [View] hands out an open directory and that is all. Callers order the calls for one target; calls
// for different targets may run at once.
package volumefs

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
)

var (
	// ErrNotMounted is wrapped by errors about a target at which none of our volumes is mounted.
	ErrNotMounted = errors.New("no volume is mounted")
	// ErrMounted is wrapped by [View.Publish] when something is mounted at the target already: a
	// volume has one mount.
	ErrMounted = errors.New("already a mount point")
	// ErrOutside is wrapped by errors about a target that is not below [Config.Root].
	ErrOutside = errors.New("not below")
)

// Config decides where volumes are, how they are made and how our mounts are recognized.
type Config struct {
	// Root is the directory below which all targets are: the kubelet's, as an absolute path.
	// Required. It may be a link, or lie behind one; below it no link is followed.
	Root string
	// Dir is the name of the directory of Root that all targets are in, if there is one. It is the
	// operator's, so an error about a link there has more to type.
	Dir string
	// Source is the mount's source in mountinfo: the driver's name, without blanks. Required.
	Source string
	// SELinuxContext labels every file of a volume. Empty leaves labels to the kernel; set, it
	// needs SELinux.
	SELinuxContext string
}

// Limits bounds one volume. Both must be positive, because the kernel reads zero as unlimited.
type Limits struct {
	// Bytes is the most its files may hold; the kernel rounds it up to whole pages, and each file
	// takes whole pages.
	Bytes int64
	// Inodes is the most files, directories and links it may have, the root directory included.
	Inodes int64
}

func (l Limits) check() error {
	if l.Bytes <= 0 || l.Inodes <= 0 {
		return fmt.Errorf("limits of %d bytes and %d inodes: both must be positive", l.Bytes, l.Inodes)
	}
	return nil
}

// Usage is how much of its [Limits] a volume takes up.
type Usage struct {
	BytesTotal, BytesUsed, BytesFree    int64
	InodesTotal, InodesUsed, InodesFree int64
}

// ForeignMountError means that somebody else's file system is mounted where one of our volumes was
// looked for. It is never touched.
type ForeignMountError struct {
	// Target is where it is mounted; FSType and Source are those of mountinfo.
	Target, FSType, Source string
}

func (e *ForeignMountError) Error() string {
	return fmt.Sprintf("%s has a foreign mount on it: a %s of %q", e.Target, e.FSType, e.Source)
}

// SymlinkError means that a symbolic link stands where the target should be, or one of the
// directories above it. It may lead to somebody else's directory, so the driver does not follow it.
// The driver finds no volume at such a target, and creates none.
type SymlinkError struct {
	// Path is where the link is, the first one on the way to Target. It may be Target.
	Path, Target string
	// To is where the link of [Config.Dir] leads, and empty for others.
	To string
}

// Error leaves out Target, which stands in front of it.
func (e *SymlinkError) Error() string {
	where := e.Path
	if e.Path == e.Target {
		where = "the target"
	}
	const advice = ", which is not followed: remove it, or have a bind mount in its place"
	if e.To == "" {
		return where + " is a symbolic link" + advice
	}
	return fmt.Sprintf("%s is a symbolic link to %s%s (`mount --bind %[2]s %[1]s` on the node), or start the kubelet "+
		"with another --root-dir and set the chart's value kubeletDir to that directory", where, e.To, advice)
}

// cleanTarget returns target without a trailing slash, which would make the kernel follow a symlink
// in its place.
func cleanTarget(target string) (string, error) {
	if !filepath.IsAbs(target) {
		return "", fmt.Errorf("target path %q is not absolute", target)
	}
	return filepath.Clean(target), nil
}

func errNotAbsolute(root string) error {
	return fmt.Errorf("the directory %q, below which targets are, is not absolute", root)
}

// below returns the path from root to a clean target.
func below(root, target string) (string, error) {
	if !filepath.IsAbs(root) {
		return "", errNotAbsolute(root)
	}
	rest, ok := strings.CutPrefix(target, strings.TrimSuffix(root, "/")+"/")
	if !ok || rest == "" {
		return "", fmt.Errorf("target path %q is %w %s", target, ErrOutside, root)
	}
	return rest, nil
}
