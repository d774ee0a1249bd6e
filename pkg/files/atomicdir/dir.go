package atomicdir

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/liveconfig-csi/liveconfig/pkg/files/tree"
)

// hook is called before every single change to the file system, with what will be done to which
// name. An error is taken for the change's own. Tests set it to stop a writer at any point.
type hook func(op, name string) error

// changes makes and counts the changes of one Write.
type changes struct {
	hook hook
	// made is set with the first change, whether or not it succeeds.
	made bool
	// us is the owner of new entries.
	us owner
}

// isOurs reports whether a new entry of a directory with the mode has the owner from the start. A
// new entry of a setgid directory has the group of that.
func (c *changes) isOurs(o owner, dirMode fs.FileMode) bool {
	return o == c.us && dirMode&fs.ModeSetgid == 0
}

func (c *changes) do(op, name string, change func() error) error {
	if c.hook != nil {
		if err := c.hook(op, name); err != nil {
			return &fs.PathError{Op: op, Path: name, Err: err}
		}
	}
	c.made = true
	return failed(op, name, change())
}

// doUnseen is do for changes that readers cannot see.
func (c *changes) doUnseen(op, name string, change func() error) error {
	made := c.made
	err := c.do(op, name, change)
	c.made = made
	return err
}

// dir is a directory. All changes go through its methods, so that each one is counted.
type dir struct {
	fd

	// at is the path of the directory in the tree, for messages.
	at string
	*changes
}

// newDir returns the root directory of the volume, which stays the caller's.
func newDir(root *os.File, h hook) dir {
	return dir{fd: fd(root.Fd()), changes: &changes{hook: h, us: owner{uid: os.Geteuid(), gid: os.Getegid()}}}
}

// do is [changes.do] for a name in the directory.
func (d dir) do(op, name string, change func() error) error {
	return d.changes.do(op, path.Join(d.at, name), change)
}

// doIn is do for a change in the directory that contains name.
func (d dir) doIn(op, name string, change func(d fd, base string) error) error {
	return d.do(op, name, func() error { return d.in(name, change) })
}

// openSubdir opens a directory in the directory. Messages leave a reserved name out, because users
// do not know it.
func (d dir) openSubdir(name string) (dir, error) {
	opened, err := d.openDir(name)
	if err != nil {
		return dir{}, err
	}
	at := path.Join(d.at, name)
	if isReserved(name) {
		at = ""
	}
	return dir{fd: opened, at: at, changes: d.changes}, nil
}

func (d dir) mkdir(name string) error {
	// The directory gets its own mode when it is complete. Until then only its maker can enter it.
	return d.do("mkdir", name, func() error { return unix.Mkdirat(int(d.fd), name, 0o700) })
}

// rename moves a name of the directory to another place in it, or below it.
func (d dir) rename(from, to string) error {
	return d.doIn("rename", to, func(parent fd, base string) error {
		return unix.Renameat(int(d.fd), from, int(parent), base)
	})
}

// remove removes name with everything below it, if it exists.
func (d dir) remove(name string) error { return d.removeBy(fd.unlink, name) }

// removeBy is remove by one of the functions that unlink. Readers do not see that a reserved name
// goes, except for the link that leads to all files.
func (d dir) removeBy(unlink func(d fd, base string) error, name string) error {
	change := func() error { return d.in(name, unlink) }
	if isReserved(name) && name != dataLink {
		return d.doUnseen("remove", path.Join(d.at, name), change)
	}
	return d.do("remove", name, change)
}

func (d dir) symlink(target, name string, o owner, mode fs.FileMode) error {
	err := d.doIn("symlink", name, func(parent fd, base string) error {
		return unix.Symlinkat(target, int(parent), base)
	})
	if err != nil || d.isOurs(o, mode) {
		return err
	}
	return d.chown(name, o)
}

// chown changes name itself, also if it is a symlink.
func (d dir) chown(name string, o owner) error {
	return d.doIn("chown", name, func(parent fd, base string) error {
		return unix.Fchownat(int(parent), base, o.uid, o.gid, unix.AT_SYMLINK_NOFOLLOW)
	})
}

// chownOpen changes the owner of a file or a directory, known by name, that is open.
func (d dir) chownOpen(name string, opened fd, o owner) error {
	return d.do("chown", name, func() error { return unix.Fchown(int(opened), o.uid, o.gid) })
}

func (d dir) chmodOpen(name string, opened fd, mode fs.FileMode) error {
	return d.do("chmod", name, func() error { return unix.Fchmod(int(opened), bits(mode)) })
}

// setOwnerAndMode sets both for an open directory. The owner comes first: changing it may clear
// mode bits.
func (d dir) setOwnerAndMode(name string, opened fd, t tree.Tree) error {
	if err := d.chownOpen(name, opened, ownerOf(t)); err != nil {
		return err
	}
	return d.chmodOpen(name, opened, t.DirMode)
}

// correctOwnerAndMode sets owner and mode of the directory itself where they differ from what was
// found.
func (d dir) correctOwnerAndMode(found info, t tree.Tree) error {
	if found.has(t.DirMode, ownerOf(t)) {
		return nil
	}
	return d.setOwnerAndMode(".", d.fd, t)
}

// createSubtree makes the directory name and everything that the tree has in it.
func (d dir) createSubtree(name string, t tree.Tree, skip int, from *origin) error {
	if err := d.mkdir(name); err != nil {
		return err
	}
	return d.writeSubtree(name, t, skip, from)
}

// writeSubtree makes everything that the tree has in the new directory name, one level at a time,
// so that no path is walked twice. Modes and owners of directories come last and children first,
// since a directory may be closed to its own maker. Files that the origin of this directory has
// are links to them. The tree has the files of this directory, and skip bytes of their paths lead
// there.
func (d dir) writeSubtree(name string, t tree.Tree, skip int, from *origin) (err error) {
	sub, err := d.openSubdir(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sub.close()) }()
	for files := t.Files; len(files) > 0; {
		n, err := sub.writeNext(files, t, skip, from)
		if err != nil {
			return err
		}
		files = files[n:]
	}
	if d.isOurs(ownerOf(t), t.DirMode) {
		return d.chmodOpen(name, sub.fd, t.DirMode)
	}
	return d.setOwnerAndMode(name, sub.fd, t)
}

// writeNext makes the first file, or its directory with all of its files. It returns how many files
// it made.
func (d dir) writeNext(files []tree.File, t tree.Tree, skip int, from *origin) (n int, err error) {
	name, n, isDir := first(files, skip)
	if !isDir {
		return n, d.linkOrCreate(name, files[0], t, from)
	}
	from = from.below(name)
	t.Files = files[:n]
	return n, errors.Join(d.createSubtree(name, t, skip+len(name)+1, from), from.close())
}

// first returns the first name of a directory that holds the files, and how many of them it stands
// for: one file, or all of a directory, which come together because files are sorted. Skip
// bytes of their paths lead to the directory.
func first(files []tree.File, skip int) (name string, n int, isDir bool) {
	file := files[0].Path
	name, _, isDir = strings.Cut(file[skip:], "/")
	if !isDir {
		return name, 1, false
	}
	below := file[:skip+len(name)+1]
	for n < len(files) && strings.HasPrefix(files[n].Path, below) {
		n++
	}
	return name, n, true
}

// create makes the file name, which must not exist, with the content of f. Its bytes are never
// readable under a mode or for an owner other than its own: until the end only its maker can open
// it.
func (d dir) create(name string, f tree.File, t tree.Tree) (err error) {
	var file fd
	err = d.do("create", name, func() (err error) {
		file, err = d.fd.create(name)
		return err
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.close()) }()
	if err := d.do("write", name, func() error { return file.write(f.Data) }); err != nil {
		return err
	}
	if err := d.markOpen(name, file, f.Source); err != nil {
		return err
	}
	if o := ownerOfFile(f, t); !d.isOurs(o, t.DirMode) {
		if err := d.chownOpen(name, file, o); err != nil {
			return err
		}
	}
	return d.chmodOpen(name, file, f.Mode)
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
