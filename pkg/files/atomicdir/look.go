package atomicdir

import (
	"bytes"
	"errors"
	"path"

	"golang.org/x/sys/unix"

	"github.com/liveconfig-csi/liveconfig/pkg/files/tree"
)

func ownerOf(t tree.Tree) owner { return owner{uid: t.UID, gid: t.GID} }

func ownerOfFile(f tree.File, t tree.Tree) owner { return owner{uid: t.UserOf(f), gid: t.GID} }

// entries maps paths to what is there. Symlinks are not followed.
type entries map[string]info

// add enters name, which is at path at, and all that is below it.
func (e entries) add(d fd, name, at string) error {
	found, err := d.stat(name)
	if err != nil {
		return err
	}
	e[at] = found
	if !found.isDir() {
		return nil
	}
	sub, err := d.openDir(name)
	if err != nil {
		return err
	}
	return errors.Join(e.addBelow(sub, at), sub.close())
}

// addBelow enters all that is in a directory, which is at path at.
func (e entries) addBelow(d fd, at string) error {
	list, err := d.names()
	if err != nil {
		return err
	}
	for _, n := range list {
		if err := e.add(d, n, path.Join(at, n)); err != nil {
			return err
		}
	}
	return nil
}

func (e entries) isDir(name string) bool { return e[name].isDir() }

// equalsTree reports whether the directory name of d is exactly the tree: nothing differs, nothing
// is missing, nothing is too much. Anything that cannot be read counts as different, so that it is
// written again. Skip bytes of the paths of the files lead to the directory.
func equalsTree(d fd, name string, t tree.Tree, skip int) bool {
	sub, err := d.openDir(name)
	if err != nil {
		return false
	}
	defer sub.close() //nolint:errcheck // Nothing was written.
	found, err := sub.statSelf()
	if err != nil || !found.has(t.DirMode, ownerOf(t)) {
		return false
	}
	names, err := sub.names()
	if err != nil {
		return false
	}
	left := len(names)
	for files := t.Files; len(files) > 0; left-- {
		name, n, isDir := first(files, skip)
		t.Files = files[:n]
		switch {
		case isDir && !equalsTree(sub, name, t, skip+len(name)+1):
			return false
		case !isDir && !equalsFile(sub, name, files[0], ownerOfFile(files[0], t)):
			return false
		}
		files = files[n:]
	}
	return left == 0
}

// equalsFile reports whether the name of d is the file f with its mode, an owner and its source. It
// is looked at once it is open: what is under a name may be another thing a moment later.
func equalsFile(d fd, name string, f tree.File, o owner) bool {
	file, found, err := d.openFile(name, unix.O_RDONLY)
	if err != nil {
		return false
	}
	defer file.close() //nolint:errcheck // Nothing was written.
	return found.has(f.Mode, o) && found.size == int64(len(f.Data)) && file.mayBeOf(f.Source) && file.holds(f.Data)
}

// compareFile compares the file that i describes with the content of f, and with its source.
func compareFile(d fd, i info, f tree.File) (sameBytes, sameSource bool) {
	file, _, err := d.openFile(f.Path, unix.O_RDONLY)
	if err != nil {
		return false, false
	}
	defer file.close() //nolint:errcheck // Nothing was written.
	return i.size == int64(len(f.Data)) && file.holds(f.Data), file.mayBeOf(f.Source)
}

// holds reports whether an open file has the bytes and no more. A large one is read in parts, so
// that it is not held in memory.
func (d fd) holds(data []byte) bool {
	var small [4096]byte
	part := small[:]
	if len(data) >= len(part) {
		part = make([]byte, 32<<10)
	}
	for {
		n, err := unix.Read(int(d), part)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil || !bytes.HasPrefix(data, part[:n]):
			return false
		}
		data = data[n:]
		// Less than was asked for is all there is, where that is all there should be.
		if n == 0 || n < len(part) && len(data) == 0 {
			return len(data) == 0
		}
	}
}
