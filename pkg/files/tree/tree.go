// Package tree holds the desired files of one volume: what treebuilder makes and a directory writer
// writes.
//
// It does not know where files come from or how they are put on disk.
package tree

import (
	"cmp"
	"fmt"
	"io/fs"
	"slices"
	"strings"
)

// File is one file of a [Tree].
type File struct {
	// Path is relative to the volume's root, slash-separated and clean.
	Path string
	// Data is the file's whole content. It is shared and must not be modified.
	Data []byte
	// Mode holds the permission bits, exactly as the file gets them.
	Mode fs.FileMode
	// User owns the file; nil means [Tree.UID].
	User *int
	// Source is where the file comes from, for one who reads the files of a volume again: see
	// treebuilder. It has at most [MaxSource] bytes, and is empty where nobody needs it. Readers of
	// the volume do not see it.
	Source string
}

// MaxSource is how many bytes [File.Source] has at most: the kernel keeps it with the file.
const MaxSource = 900

// Tree is every file of one volume, and their owner. Directories are implied by the paths.
type Tree struct {
	// Files are sorted by path; no path is a parent of another; no path appears twice.
	Files []File
	// DirMode is the mode of every directory, the root included: permission bits and perhaps
	// [fs.ModeSetgid].
	DirMode fs.FileMode
	// UID and GID own every directory, and every file that has no [File.User].
	UID, GID int
	// MountPoints are directories in which there is never a file, of the mode [MountPointMode],
	// sorted. No file is at one of them, above or below it.
	MountPoints []string
}

// UserOf returns who owns a file of the tree.
func (t Tree) UserOf(f File) int {
	if f.User != nil {
		return *f.User
	}
	return t.UID
}

// ConflictError is returned by [New] when two files cannot stand in one directory tree.
type ConflictError struct {
	// Path is the file that another file needs as a directory. Below is that other file, or the
	// same path again.
	Path, Below string
}

func (e *ConflictError) Error() string {
	if e.Path == e.Below {
		return fmt.Sprintf("path %q is that of two files", e.Path)
	}
	return fmt.Sprintf("path %q cannot be a file and, for %q, a directory", e.Path, e.Below)
}

// New sorts the files into a tree owned by root with directories of mode 0755. It returns a
// *[ConflictError] when one file's path is a parent of another's or the same, and another error for
// a path that is not as [File] wants it: two spellings of one path would not be seen to be the
// same. New keeps the slice.
func New(files []File) (Tree, error) {
	for _, f := range files {
		if !fs.ValidPath(f.Path) || f.Path == "." {
			return Tree{}, fmt.Errorf("path %q is not a clean relative path", f.Path)
		}
	}
	// Sorting so puts a parent right before what lies below it.
	slices.SortFunc(files, func(a, b File) int { return comparePaths(a.Path, b.Path) })
	for i := 1; i < len(files); i++ {
		parent, child := files[i-1].Path, files[i].Path
		if child == parent || strings.HasPrefix(child, parent+"/") {
			return Tree{}, &ConflictError{Path: parent, Below: child}
		}
	}
	return Tree{Files: files, DirMode: 0o755}, nil
}

// comparePaths orders paths with the separator as the lowest byte.
func comparePaths(a, b string) int {
	for i := range min(len(a), len(b)) {
		switch {
		case a[i] == b[i]:
		case a[i] == '/':
			return -1
		case b[i] == '/':
			return 1
		default:
			return cmp.Compare(a[i], b[i])
		}
	}
	return cmp.Compare(len(a), len(b))
}

// Parent returns the directory of a clean relative path, "." for the root. [path.Dir] reads the
// whole path again, and one who goes up from each file reads it once for each element.
func Parent(file string) string {
	at := strings.LastIndexByte(file, '/')
	if at < 0 {
		return "."
	}
	return file[:at]
}

// Dirs returns every directory of the tree, parents before children, without the root: those that
// files need, and the mount points.
func (t Tree) Dirs() []string {
	var dirs []string
	seen := map[string]bool{".": true}
	for _, f := range t.Files {
		dirs = appendMissing(dirs, Parent(f.Path), seen)
	}
	for _, point := range t.MountPoints {
		dirs = appendMissing(dirs, point, seen)
	}
	return dirs
}

// appendMissing appends a directory and those above it that were not seen, parents before children.
func appendMissing(dirs []string, dir string, seen map[string]bool) []string {
	var missing []string
	for d := dir; !seen[d]; d = Parent(d) {
		seen[d] = true
		missing = append(missing, d)
	}
	slices.Reverse(missing)
	return append(dirs, missing...)
}

// Names returns what stands for all files beside the mount points, sorted, each once: the first
// path element of a file. Below a directory that has mount points, one more element counts.
func (t Tree) Names() []string {
	fixed := t.fixedDirs()
	var names []string
	for _, f := range t.Files {
		name, _, _ := strings.Cut(f.Path, "/")
		for fixed[name] && len(name) < len(f.Path) {
			next, _, _ := strings.Cut(f.Path[len(name)+1:], "/")
			name += "/" + next
		}
		names = append(names, name)
	}
	slices.SortFunc(names, cmp.Compare)
	return slices.Compact(names)
}

// Size returns the sum of the lengths of all files, in bytes.
func (t Tree) Size() int {
	n := 0
	for _, f := range t.Files {
		n += len(f.Data)
	}
	return n
}
