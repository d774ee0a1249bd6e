package atomicdir

import (
	"errors"
	"io/fs"
	"os"
	"slices"

	"github.com/liveconfig-csi/liveconfig/pkg/tree"
)

// hook is called before every single change to the file system, with what will be done to which name. An error is taken
// for the change's own. Tests set it to stop a writer at any point.
type hook func(op, name string) error

// changes watches over the changes of one Write.
type changes struct {
	hook hook
	// made is set with the first change, whether or not it succeeds.
	made bool
}

func (c *changes) do(op, name string, change func() error) error {
	if c.hook != nil {
		if err := c.hook(op, name); err != nil {
			return &fs.PathError{Op: op, Path: name, Err: err}
		}
	}
	c.made = true
	err := change()
	// An open file's errors name it by the path its root was opened by, which may be some /proc/self/fd/7.
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		pe.Path = name
	}
	return err
}

// dir is a directory that can only be changed through its methods, so that no change goes unseen.
type dir struct {
	root *os.Root
	*changes
}

func (d dir) mkdir(name string) error {
	// Nobody looks into a directory before it is complete and gets its own mode.
	return d.do("mkdir", name, func() error { return d.root.Mkdir(name, 0o700) })
}

func (d dir) rename(from, to string) error {
	return d.do("rename", to, func() error { return d.root.Rename(from, to) })
}

// remove removes name with everything below it. It is no error if name does not exist.
func (d dir) remove(name string) error {
	return d.do("remove", name, func() error { return d.root.RemoveAll(name) })
}

func (d dir) symlink(target, name string, o owner) error {
	err := d.do("symlink", name, func() error { return d.root.Symlink(target, name) })
	if err != nil {
		return err
	}
	return d.chown(name, o)
}

// chown changes name itself, also if it is a symlink.
func (d dir) chown(name string, o owner) error {
	return d.do("chown", name, func() error { return d.root.Lchown(name, o.uid, o.gid) })
}

func (d dir) chmod(name string, mode fs.FileMode) error {
	return d.do("chmod", name, func() error { return d.root.Chmod(name, mode) })
}

// settle gives a directory its owner and mode. The owner comes first: changing it may clear mode bits.
func (d dir) settle(name string, t tree.Tree) error {
	if err := d.chown(name, ownerOf(t)); err != nil {
		return err
	}
	return d.chmod(name, t.DirMode)
}

// settleIfWrong is settle for a directory that may be right already, and then is not touched.
func (d dir) settleIfWrong(name string, t tree.Tree) error {
	info, err := d.root.Lstat(name)
	if err != nil {
		return err
	}
	if isRight(info, t.DirMode, ownerOf(t)) {
		return nil
	}
	return d.settle(name, t)
}

// fill makes the directory name and everything the tree has in it. Modes and owners of directories come last and
// children first, since a directory may be closed to its own maker.
func (d dir) fill(name string, t tree.Tree) error {
	if err := d.mkdir(name); err != nil {
		return err
	}
	root, err := d.root.OpenRoot(name)
	if err != nil {
		return err
	}
	defer root.Close()
	sub := dir{root: root, changes: d.changes}
	dirs := t.Dirs()
	for _, p := range dirs {
		if err := sub.mkdir(p); err != nil {
			return err
		}
	}
	for _, f := range t.Files {
		if err := sub.create(f.Path, f, ownerOf(t)); err != nil {
			return err
		}
	}
	for _, p := range slices.Backward(dirs) {
		if err := sub.settle(p, t); err != nil {
			return err
		}
	}
	return d.settle(name, t)
}

// create makes the file name, which must not exist, with the content of f. Its bytes are never readable under a mode or
// for an owner other than its own: until the end only its maker can open it.
func (d dir) create(name string, f tree.File, o owner) (err error) {
	var file *os.File
	err = d.do("create", name, func() (err error) {
		file, err = d.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		return err
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return runAll(
		func() error { return d.do("write", name, func() error { _, err := file.Write(f.Data); return err }) },
		func() error { return d.do("chown", name, func() error { return file.Chown(o.uid, o.gid) }) },
		func() error { return d.do("chmod", name, func() error { return file.Chmod(f.Mode) }) },
	)
}

// runAll runs the functions until one fails.
func runAll(functions ...func() error) error {
	for _, f := range functions {
		if err := f(); err != nil {
			return err
		}
	}
	return nil
}
