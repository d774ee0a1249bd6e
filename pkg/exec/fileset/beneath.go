package fileset

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/liveconfig-csi/liveconfig/pkg/exec/environ"
)

// mostRaces is how often the kernel is asked again for a path with two dots in a link, which it
// cannot follow while something else on the node is renamed.
const mostRaces = 100

var (
	errNotRegular = errors.New("not a regular file")
	// errLeadsOut is the error of a link that leads out of its directory.
	errLeadsOut = errors.New("leads out of the directory")
)

func openDir(path string) (*os.File, error) {
	return os.OpenFile(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
}

// readFile reads a file below a directory that is open, or, without one, at an absolute path, and
// returns what is stored of its content.
func readFile(dir *os.File, name string, store storing) ([]byte, error) {
	// Whatever waits for another process when it is opened, as a named pipe does, must not be
	// waited for.
	const flags = unix.O_RDONLY | unix.O_NONBLOCK | unix.O_NOCTTY
	var file *os.File
	var err error
	if dir == nil {
		file, err = os.OpenFile(name, flags, 0)
	} else {
		file, err = openBeneath(dir, name, flags)
	}
	if err != nil {
		return nil, opening(dir, name, err)
	}
	defer file.Close()
	info, err := file.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, errNotRegular
	}
	most := &io.LimitedReader{R: file, N: environ.MaxFile + 1}
	data, err := store(most)
	if err == nil && most.N == 0 {
		return nil, environ.ErrTooLarge
	}
	return data, err
}

// storing reads the content of a file and returns what a [Set] stores of it.
type storing func(content io.Reader) ([]byte, error)

// digests returns a function that stores the SHA-256 of files. It never has more than a few
// kilobytes of them in memory.
func digests() storing {
	const size = 8 << 10
	buffer, h := make([]byte, size), sha256.New()
	return func(content io.Reader) ([]byte, error) {
		h.Reset()
		_, err := io.CopyBuffer(h, content, buffer)
		return h.Sum(nil), err
	}
}

// opening returns what to do about an error.
func opening(dir *os.File, name string, err error) error {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		err = path.Err
	}
	switch {
	case errors.Is(err, unix.EACCES):
		return fmt.Errorf("user %d may not read it: %w; look at its mode and owner (defaultMode, uid, fsGroup)", os.Geteuid(),
			err)
	case errors.Is(err, unix.ENXIO): // A socket.
		return errNotRegular
	case errors.Is(err, errLeadsOut):
		return leadsOut(dir, name)
	}
	return err
}

const whichLinks = "only relative links to files of the directory are followed"

// leadsOut returns the error of a link that leads out of its directory.
func leadsOut(dir *os.File, name string) error {
	target := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(int(dir.Fd()), name, target)
	if err != nil { // A directory on the way is the link, or the link is gone.
		return fmt.Errorf("a link on the way %w: %s", errLeadsOut, whichLinks)
	}
	return fmt.Errorf("it is a link to %q, which %w: %s", target[:n], errLeadsOut, whichLinks)
}

// openBeneath opens a path below a directory. It follows links that stay below the directory, and
// returns errLeadsOut for others.
func openBeneath(dir *os.File, name string, flags int) (*os.File, error) {
	fd, err := openat2(dir, name, flags)
	switch {
	case isUnknown(err):
		return openInRoot(dir, name, flags)
	case err != nil:
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

// stateBeneath returns the state of a path below a directory, or errLeadsOut. Whatever cannot be
// looked at is as if it were not there.
func stateBeneath(dir *os.File, name string) (state, error) {
	fd, err := openat2(dir, name, unix.O_PATH)
	switch {
	case isUnknown(err):
		return stateInRoot(dir, name)
	case errors.Is(err, errLeadsOut):
		return state{}, err
	case err != nil:
		return state{}, nil
	}
	defer unix.Close(fd) //nolint:errcheck // It was only looked at.
	var s unix.Stat_t
	if unix.Fstat(fd, &s) != nil {
		return state{}, nil
	}
	return stateOf(&s), nil
}

func openat2(dir *os.File, name string, flags int) (fd int, err error) {
	given := uint64(flags | unix.O_CLOEXEC) //nolint:gosec // Flags are positive.
	how := &unix.OpenHow{Flags: given, Resolve: unix.RESOLVE_BENEATH}
	for range mostRaces {
		fd, err = unix.Openat2(int(dir.Fd()), name, how)
		if !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if errors.Is(err, unix.EXDEV) {
		err = errLeadsOut
	}
	return fd, err
}

// isUnknown reports whether the kernel, or what stands between it and the container, does not know
// openat2. Some sandboxes of containers do not.
func isUnknown(err error) bool { return errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) }

// openInRoot is openBeneath without openat2. Go follows the links itself, one by one.
func openInRoot(dir *os.File, name string, flags int) (*os.File, error) {
	root, err := rootOf(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	file, err := root.OpenFile(name, flags, 0)
	return file, inRoot(err)
}

// stateInRoot is stateBeneath without openat2.
func stateInRoot(dir *os.File, name string) (state, error) {
	root, err := rootOf(dir)
	if err != nil {
		return state{}, err
	}
	defer root.Close()
	info, err := root.Stat(name)
	switch err = inRoot(err); {
	case errors.Is(err, errLeadsOut):
		return state{}, err
	case err != nil:
		return state{}, nil
	}
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return state{}, nil
	}
	return state{
		dev: uint64(s.Dev), inode: s.Ino, size: s.Size, //nolint:unconvert // Not on each architecture.
		mtime: unix.Timespec(s.Mtim), ctime: unix.Timespec(s.Ctim),
	}, nil
}

func rootOf(dir *os.File) (*os.Root, error) {
	return os.OpenRoot(fmt.Sprintf("/proc/self/fd/%d", dir.Fd()))
}

// inRoot makes the error of a link that leads out of a root, which has no name, errLeadsOut. Others
// are the kernel's.
func inRoot(err error) error {
	var kernel syscall.Errno
	if err == nil || errors.As(err, &kernel) {
		return err
	}
	return errLeadsOut
}
