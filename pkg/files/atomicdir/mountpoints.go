package atomicdir

import (
	"errors"
	"os"
	"path"

	"golang.org/x/sys/unix"

	"github.com/liveconfig-csi/liveconfig/pkg/files/tree"
)

// listDir finds what is in a directory that was found, if it is one.
func (w *atomicWrite) listDir(name string) error {
	if !w.found.isDir(name) {
		return nil
	}
	sub, err := w.openDir(name)
	if err != nil {
		return err
	}
	names, err := sub.names()
	for _, n := range names {
		found, statErr := sub.stat(n)
		at := path.Join(name, n)
		w.found[at], w.order = found, append(w.order, at)
		err = errors.Join(err, statErr)
	}
	return errors.Join(err, sub.close())
}

// makeDirs is the first part of step 7. A directory that is there stays the same inode: a container
// has something mounted on it, which would go with it.
func (w *atomicWrite) makeDirs() error {
	for _, d := range w.dirs {
		if err := w.fixDir(d, w.found[d.Path], w.want); err != nil {
			return err
		}
		delete(w.found, d.Path) // It is right, so nothing else has to look at it.
	}
	return nil
}

// makeDirs comes before step 2, which needs to know what is in the way of new files.
func (w *plainWrite) makeDirs() error {
	for _, d := range w.want.FixedDirs() {
		if err := w.fixDir(d, w.found[d.Path], w.want); err != nil {
			return err
		}
		w.found[d.Path] = info{mode: unix.S_IFDIR | bits(d.Mode), owner: ownerOf(w.want)}
	}
	return nil
}

// fixDir makes a directory where there is none, and gives it its owner and mode. Anything else that
// is there goes first: nobody but a container with too many rights puts it there.
func (d dir) fixDir(want tree.Dir, found info, t tree.Tree) error {
	t.DirMode = want.Mode
	switch {
	case found.isDir() && found.has(want.Mode, ownerOf(t)):
		return nil
	case found.isDir():
		return d.setDir(want.Path, t)
	case found.mode != 0:
		if err := d.remove(want.Path); err != nil {
			return err
		}
	}
	err := d.doIn("mkdir", want.Path, func(parent fd, base string) error { return unix.Mkdirat(int(parent), base, 0o700) })
	if err != nil {
		return err
	}
	return d.setDir(want.Path, t)
}

// setDir gives a directory the owner and the mode that the tree has for directories.
func (d dir) setDir(name string, t tree.Tree) error {
	opened, err := d.openDir(name)
	if err != nil {
		return err
	}
	return errors.Join(d.setOwnerAndMode(name, opened, t), opened.close())
}

// EmptyDirs returns those of the paths that are empty directories of root, on a way without links.
func EmptyDirs(root *os.File, paths []string) (empty []string) {
	for _, name := range paths {
		opened, err := fd(root.Fd()).openDir(name)
		if err != nil {
			continue // There is something else, or nothing.
		}
		names, err := opened.names()
		if err = errors.Join(err, opened.close()); err == nil && len(names) == 0 {
			empty = append(empty, name)
		}
	}
	return empty
}
