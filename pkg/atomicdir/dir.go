package atomicdir

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"strings"

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
	return named(name, change())
}

// doUnseen is do for what readers cannot notice.
func (c *changes) doUnseen(op, name string, change func() error) error {
	made := c.made
	err := c.do(op, name, change)
	c.made = made
	return err
}

// named names the path of an error as a user knows it.
func named(name string, err error) error {
	// An open file's errors name it by the path its root was opened by, which may be some /proc/self/fd/7.
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		pe.Path = name
	}
	return err
}

// dir is a directory that can only be changed through its methods, so that no change goes unseen.
type dir struct {
	root *os.Root
	// at is what stands before its names in messages: where it is in the tree.
	at string
	*changes
}

// do is [changes.do] for a name in the directory.
func (d dir) do(op, name string, change func() error) error {
	return d.changes.do(op, path.Join(d.at, name), change)
}

// enter opens a directory in the directory. Messages do not name a reserved one: users know what is below it.
func (d dir) enter(name string) (dir, error) {
	root, err := d.root.OpenRoot(name)
	if err != nil {
		return dir{}, err
	}
	at := path.Join(d.at, name)
	if isReserved(name) {
		at = ""
	}
	return dir{root: root, at: at, changes: d.changes}, nil
}

func (d dir) mkdir(name string) error {
	// Nobody looks into a directory before it is complete and gets its own mode.
	return d.do("mkdir", name, func() error { return d.root.Mkdir(name, 0o700) })
}

func (d dir) rename(from, to string) error {
	return d.do("rename", to, func() error { return d.root.Rename(from, to) })
}

// remove removes name with everything below it. It is no error if name does not exist. That a reserved name goes is not
// seen by anybody, but for the one that leads to all others.
func (d dir) remove(name string) error {
	do := d.do
	if isReserved(name) && name != dataLink {
		do = d.doUnseen
	}
	return do("remove", name, func() error { return d.root.RemoveAll(name) })
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

// fill makes the directory name and everything the tree has in it, one level at a time: a path is not walked again for
// each of its elements. Modes and owners of directories come last and children first, since a directory may be closed to
// its own maker.
func (d dir) fill(name string, t tree.Tree) error {
	if err := d.mkdir(name); err != nil {
		return err
	}
	sub, err := d.enter(name)
	if err != nil {
		return err
	}
	defer sub.root.Close()
	for files := t.Files; len(files) > 0; {
		n, err := sub.fillNext(files, t)
		if err != nil {
			return err
		}
		files = files[n:]
	}
	return d.settle(name, t)
}

// fillNext makes the first file, or the directory that it is in with all of its files, which come together because files
// are sorted. It returns how many files it made.
func (d dir) fillNext(files []tree.File, t tree.Tree) (n int, err error) {
	name, _, isBelow := strings.Cut(files[0].Path, "/")
	if !isBelow {
		return 1, d.create(name, files[0], ownerOf(t))
	}
	for n < len(files) && strings.HasPrefix(files[n].Path, name+"/") {
		n++
	}
	return n, d.fill(name, below(name, files[:n], t))
}

// below returns the tree of a directory that holds the files, which are all below it in the whole tree.
func below(name string, files []tree.File, whole tree.Tree) tree.Tree {
	sub := tree.Tree{DirMode: whole.DirMode, UID: whole.UID, GID: whole.GID}
	for _, f := range files {
		f.Path = strings.TrimPrefix(f.Path, name+"/")
		sub.Files = append(sub.Files, f)
	}
	return sub
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
