package atomicdir

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/liveconfig-csi/liveconfig/pkg/files/tree"
)

// sourceAttribute is the extended attribute of a file that has its source. The kernel shows those
// that begin with «trusted.» to nobody but the node's administrator.
const sourceAttribute = "trusted.liveconfig.source"

// markOpen notes the source of an open file with it. Some kernels, and users other than the node's
// administrator, cannot: then the file has none.
func (d dir) markOpen(name string, opened fd, source string) error {
	if source == "" {
		return nil
	}
	return d.do("mark", name, func() error {
		err := unix.Fsetxattr(int(opened), sourceAttribute, []byte(source), 0)
		if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.EOPNOTSUPP) {
			return nil
		}
		return err
	})
}

// markAgain is markOpen for a file that may have another source, and that readers see already. It
// cannot fail for want of space: then the file has no source.
func (d dir) markAgain(name string, opened fd, source string) error {
	if d.markOpen(name, opened, source) == nil {
		return nil
	}
	return d.do("unmark", name, func() error {
		err := unix.Fremovexattr(int(opened), sourceAttribute)
		if errors.Is(err, unix.ENODATA) {
			return nil
		}
		return err
	})
}

// source returns the source of an open file; empty for none.
func (d fd) source() string {
	var buffer [tree.MaxSource]byte
	n, err := unix.Fgetxattr(int(d), sourceAttribute, buffer[:])
	if err != nil {
		return ""
	}
	return string(buffer[:n])
}

// mayBeOf reports whether an open file is not known to have another source. One without a source is
// left as it is: another writing may not give it one either.
func (d fd) mayBeOf(source string) bool {
	if source == "" {
		return true
	}
	has := d.source()
	return has == "" || has == source
}

// Limits is how much [Read] reads.
type Limits struct {
	Bytes, Entries int64 // At most; entries are files and directories.
	// Of reports whether the bytes of files of a source are read; nil for all.
	Of func(source string) bool
}

// Read returns the files that a [Writer] has left in root, with their bytes and sources, and
// without modes and owners. It fails if there is more than the limits allow, and if anything is not
// as a Writer leaves it. root stays the caller's.
func Read(root *os.File, most Limits) ([]tree.File, error) {
	r := &reader{left: most}
	from := fd(root.Fd())
	err := r.read(from, cmp.Or(liveGeneration(from), "."), "")
	if err != nil {
		return nil, err
	}
	return r.found, nil
}

// liveGeneration returns the name of the generation that ..data leads to; empty for none.
func liveGeneration(root fd) string {
	if target := root.readlink(dataLink); isGeneration(target) {
		return target
	}
	return ""
}

// reader reads files into memory.
type reader struct {
	left  Limits
	found []tree.File
}

// errTooMuch is why files are not read.
var errTooMuch = errors.New("the files of the volume are too many or too large to be read")

// readAll reads the files in an open directory at a path.
func (r *reader) readAll(d fd, at string) error {
	names, err := d.names()
	if err != nil {
		return err
	}
	for _, name := range names {
		if at == "" && isReserved(name) {
			continue
		}
		if err := r.read(d, name, path.Join(at, name)); err != nil {
			return err
		}
	}
	return nil
}

// mostElements is how many elements a path has at most. Each directory on the way is open.
const mostElements = 64

// read reads a file, or those in a directory.
func (r *reader) read(d fd, name, at string) error {
	found, err := d.stat(name)
	if r.left.Entries--; r.left.Entries < 0 || strings.Count(at, "/") >= mostElements {
		err = errTooMuch
	}
	if err != nil {
		return err
	}
	if !found.isDir() {
		return r.readFile(d, name, at)
	}
	sub, err := d.openDir(name)
	if err != nil {
		return err
	}
	return errors.Join(r.readAll(sub, at), sub.close())
}

func (r *reader) readFile(d fd, name, at string) error {
	file, found, err := d.openFile(name, unix.O_RDONLY)
	if err != nil {
		return err
	}
	f := tree.File{Path: at, Source: file.source()}
	if r.left.Of == nil || r.left.Of(f.Source) {
		f.Data, err = r.bytesOf(file, found.size)
	}
	r.found = append(r.found, f)
	return errors.Join(err, file.close())
}

// bytesOf returns so many bytes of an open file.
func (r *reader) bytesOf(file fd, size int64) ([]byte, error) {
	if r.left.Bytes -= size; r.left.Bytes < 0 {
		return nil, errTooMuch
	}
	data := make([]byte, size)
	return data, file.fill(data)
}

// fill reads as many bytes as data has.
func (d fd) fill(data []byte) error {
	for offset := 0; offset < len(data); {
		n, err := unix.Pread(int(d), data[offset:], int64(offset))
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return os.NewSyscallError("pread", err)
		case n == 0:
			return fmt.Errorf("%w: a file got shorter", fs.ErrInvalid)
		}
		offset += max(n, 0)
	}
	return nil
}
