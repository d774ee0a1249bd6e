package atomicdir

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"syscall"

	"github.com/liveconfig-csi/liveconfig/pkg/tree"
)

// owner is a user and a group by number.
type owner struct{ uid, gid int }

func ownerOf(t tree.Tree) owner { return owner{uid: t.UID, gid: t.GID} }

func (o owner) owns(info fs.FileInfo) bool { return o == ownerOfFile(info) }

func ownerOfFile(info fs.FileInfo) owner {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return owner{uid: -1, gid: -1}
	}
	return owner{uid: int(st.Uid), gid: int(st.Gid)}
}

// isRight compares every mode bit that can be set, so that a stray sticky bit does not pass.
func isRight(info fs.FileInfo, mode fs.FileMode, o owner) bool {
	const bits = fs.ModePerm | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky
	return info.Mode()&bits == mode && o.owns(info)
}

// names lists a directory, in no order.
func names(root *os.Root, name string) ([]string, error) {
	d, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	list, err := d.Readdirnames(-1)
	return list, errors.Join(err, d.Close())
}

// entries maps paths to what is there. Symlinks are not followed.
type entries map[string]fs.FileInfo

// add enters name, which is at path at, and all that is below it.
func (e entries) add(root *os.Root, name, at string) error {
	info, err := root.Lstat(name)
	if err != nil {
		return err
	}
	e[at] = info
	if !info.IsDir() {
		return nil
	}
	sub, err := root.OpenRoot(name)
	if err != nil {
		return err
	}
	defer sub.Close()
	list, err := names(sub, ".")
	if err != nil {
		return err
	}
	for _, n := range list {
		if err := e.add(sub, n, path.Join(at, n)); err != nil {
			return err
		}
	}
	return nil
}

func (e entries) isFile(name string) bool {
	info, ok := e[name]
	return ok && info.Mode().IsRegular()
}

func (e entries) isDir(name string) bool {
	info, ok := e[name]
	return ok && info.IsDir()
}

// holds tells whether the directory name of root is exactly the tree: nothing differs, nothing is missing, nothing is
// too much. What cannot be read is not equal: writing it anew may help, giving up does not.
func holds(root *os.Root, name string, t tree.Tree) bool {
	sub, err := root.OpenRoot(name)
	if err != nil {
		return false
	}
	defer sub.Close()
	found := make(entries)
	if err := found.add(sub, ".", "."); err != nil {
		return false
	}
	dirs := append(t.Dirs(), ".")
	if len(found) != len(dirs)+len(t.Files) {
		return false
	}
	for _, d := range dirs {
		if !found.isDir(d) || !isRight(found[d], t.DirMode, ownerOf(t)) {
			return false
		}
	}
	for _, f := range t.Files {
		if !found.isFile(f.Path) || !isRight(found[f.Path], f.Mode, ownerOf(t)) || !hasBytes(sub, found[f.Path], f) {
			return false
		}
	}
	return true
}

// hasBytes compares the file that info describes with the content of f.
func hasBytes(root *os.Root, info fs.FileInfo, f tree.File) bool {
	if info.Size() != int64(len(f.Data)) {
		return false
	}
	file, err := root.Open(f.Path)
	if err != nil {
		return false
	}
	defer file.Close()
	rest := expected(f.Data)
	_, err = io.Copy(&rest, file)
	return err == nil && len(rest) == 0
}

// expected takes in only the bytes it consists of, so that a file is compared without being held in memory.
type expected []byte

func (e *expected) Write(p []byte) (int, error) {
	if !bytes.HasPrefix(*e, p) {
		return 0, errDiffers
	}
	*e = (*e)[len(p):]
	return len(p), nil
}

var errDiffers = errors.New("bytes differ")
