package volume

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/liveconfig-csi/liveconfig/pkg/files/atomicdir"
	"github.com/liveconfig-csi/liveconfig/pkg/files/tree"
)

var _ atomicdir.Writer = (*inTreeOrder)(nil)

// inTreeOrder writes the same layout as an Atomic with the steps in the order of the kubelet: write the generation,
// swap, add names, remove names, remove the old generation (rules 31 to 38). It is made to be compared with: it knows
// nothing of failures and left-overs.
type inTreeOrder struct {
	generations int
}

// Write is [atomicdir.Writer].
func (w *inTreeOrder) Write(dir *os.File, t tree.Tree) (changed bool, err error) {
	root, err := os.OpenRoot(fmt.Sprintf("/proc/self/fd/%d", dir.Fd()))
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	old, err := root.Readlink("..data")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	w.generations++
	next := fmt.Sprintf("..2026_01_02_03_04_05.%d", w.generations)
	steps := []func() error{
		func() error { return writeAll(root, next, t) },
		func() error { return root.Symlink(next, "..data_tmp") },
		func() error { return root.Rename("..data_tmp", "..data") },
		func() error { return addNames(root, t) },
		func() error { return removeNames(root, t) },
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return true, err
		}
	}
	if old == "" {
		return true, settle(root, ".", t)
	}
	return true, root.RemoveAll(old)
}

// writeAll makes the generation, with owners and modes right before anybody looks into it.
func writeAll(root *os.Root, generation string, t tree.Tree) error {
	dirs := append([]string{"."}, t.Dirs()...)
	for _, d := range dirs {
		if err := root.Mkdir(path.Join(generation, d), 0o755); err != nil {
			return err
		}
	}
	for _, f := range t.Files {
		name := path.Join(generation, f.Path)
		err := root.WriteFile(name, f.Data, 0o600)
		if err := errors.Join(err, root.Chown(name, t.UID, t.GID), root.Chmod(name, f.Mode)); err != nil {
			return err
		}
	}
	for _, d := range dirs {
		if err := settle(root, path.Join(generation, d), t); err != nil {
			return err
		}
	}
	return nil
}

func settle(root *os.Root, dir string, t tree.Tree) error {
	return errors.Join(root.Chown(dir, t.UID, t.GID), root.Chmod(dir, t.DirMode))
}

func addNames(root *os.Root, t tree.Tree) error {
	for _, name := range t.Names() {
		if err := root.Symlink("..data/"+name, name); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return nil
}

func removeNames(root *os.Root, t tree.Tree) error {
	stays := map[string]bool{}
	for _, name := range t.Names() {
		stays[name] = true
	}
	list, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return err
	}
	for _, d := range list {
		if stays[d.Name()] || strings.HasPrefix(d.Name(), "..") {
			continue
		}
		if err := root.Remove(d.Name()); err != nil {
			return err
		}
	}
	return nil
}
