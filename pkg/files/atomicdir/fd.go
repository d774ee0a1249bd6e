package atomicdir

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// fd is an open directory. Every call through it acts in that directory, even if the path of the
// directory changes, and follows no link on the way to a file below it.
//
// It makes system calls without the os package, which would register each file with the poller,
// where it has no business, and clean up after files that are left open, and here no file is left
// open. That took most of the time of an update.
type fd int

// open opens what is below the directory. A symlink gives ELOOP.
func (d fd) open(name string, flags int) (fd, error) {
	if len(name) >= unix.PathMax {
		return d.openFar(name, flags)
	}
	how := unix.OpenHow{
		Flags:   uint64(flags) | unix.O_CLOEXEC, //nolint:gosec // Flags are bits.
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	}
	for {
		n, err := unix.Openat2(int(d), name, &how)
		switch {
		case err == nil:
			return fd(n), nil
		case !errors.Is(err, unix.EINTR):
			return -1, failed("open", name, err)
		}
	}
}

// openFile opens a file below the directory without waiting for anybody. A container that can mount
// can make its volume writable, and then what was a file a moment ago may be a pipe or a device by
// now: what is opened is looked at, and anything but a regular file is an error. It returns what it
// has found. The owner of a file can have a lease on it (fcntl F_SETLEASE), read-only mount or not,
// for which the kernel has others wait up to a minute: that is an error too.
func (d fd) openFile(name string, flags int) (fd, info, error) {
	file, err := d.open(name, flags|unix.O_NONBLOCK)
	switch {
	case errors.Is(err, unix.EAGAIN):
		return -1, info{}, &fs.PathError{Op: "open", Path: name, Err: errLease}
	case errors.Is(err, unix.ENXIO): // A socket, or a pipe that nobody reads.
		return -1, info{}, &fs.PathError{Op: "open", Path: name, Err: errNotFile}
	case err != nil:
		return -1, info{}, err
	}
	var st unix.Stat_t
	err = unix.Fstat(int(file), &st)
	found := infoOf(st)
	if err == nil && !found.isFile() {
		err = errNotFile
	}
	if err != nil {
		return -1, info{}, errors.Join(&fs.PathError{Op: "open", Path: name, Err: err}, file.close())
	}
	return file, found, nil
}

// Why a file is not opened.
var (
	errNotFile = errors.New("it is not a regular file")
	// errLease passes: the kernel has asked for the lease, and takes it after
	// /proc/sys/fs/lease-break-time seconds.
	errLease = errors.New("another process has a lease on it, which the kernel is taking away")
)

// create makes a file that only its maker may open. Where there is anything already, a link
// included, that is an error.
func (d fd) create(name string) (fd, error) {
	for {
		n, err := unix.Openat(int(d), name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, 0o600)
		switch {
		case err == nil:
			return fd(n), nil
		case !errors.Is(err, unix.EINTR):
			return -1, failed("create", name, err)
		}
	}
}

// openFar is open for a path that is too long for the kernel, in two parts.
func (d fd) openFar(name string, flags int) (far fd, err error) {
	i := strings.LastIndexByte(name[:unix.PathMax], '/')
	if i < 0 {
		return -1, failed("open", name, unix.ENAMETOOLONG)
	}
	near, err := d.open(name[:i], unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return -1, err
	}
	defer func() { err = errors.Join(err, near.close()) }()
	return near.open(name[i+1:], flags)
}

func (d fd) openDir(name string) (fd, error) { return d.open(name, unix.O_RDONLY|unix.O_DIRECTORY) }

func (d fd) close() error { return os.NewSyscallError("close", unix.Close(int(d))) }

// in calls do with the directory that name is in, and its name there.
func (d fd) in(name string, do func(d fd, base string) error) error {
	i := strings.LastIndexByte(name, '/')
	if i < 0 {
		return do(d, name)
	}
	parent, err := d.open(name[:i], unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	return errors.Join(do(parent, name[i+1:]), parent.close())
}

// namesAgain lists a directory that may have been listed before, in no order.
func (d fd) namesAgain() ([]string, error) {
	if _, err := unix.Seek(int(d), 0, io.SeekStart); err != nil {
		return nil, failed("list", ".", err)
	}
	return d.names()
}

// names lists a directory that was just opened, in no order.
func (d fd) names() (list []string, err error) {
	var buffer [4096]byte
	for {
		n, err := unix.ReadDirent(int(d), buffer[:])
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return nil, failed("list", ".", err)
		case n == 0:
			return list, nil
		}
		_, _, list = unix.ParseDirent(buffer[:n], -1, list)
	}
}

// stat looks at what is under the name of one element. A symlink is not followed.
func (d fd) stat(name string) (info, error) {
	var st unix.Stat_t
	if err := unix.Fstatat(int(d), name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return info{}, failed("stat", name, err)
	}
	i := infoOf(st)
	if i.kind() == unix.S_IFLNK {
		i.target = d.readlink(name)
	}
	return i, nil
}

// statSelf looks at the directory itself.
func (d fd) statSelf() (info, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(d), &st); err != nil {
		return info{}, failed("stat", ".", err)
	}
	return infoOf(st), nil
}

// readlink returns where a symlink leads; nothing if that cannot be read.
func (d fd) readlink(name string) string {
	var buffer [4096]byte
	n, err := unix.Readlinkat(int(d), name, buffer[:])
	if err != nil {
		return ""
	}
	return string(buffer[:n])
}

// unlink removes name with everything below it. It is not an error if name does not exist.
func (d fd) unlink(name string) error {
	err := unix.Unlinkat(int(d), name, 0)
	switch {
	case err == nil || errors.Is(err, unix.ENOENT):
		return nil
	case !errors.Is(err, unix.EISDIR) && !errors.Is(err, unix.EPERM):
		return err
	}
	return d.unlinkDir(name)
}

// unlinkDir is unlink for a directory.
func (d fd) unlinkDir(name string) error {
	err := d.empty(name)
	switch {
	case errors.Is(err, unix.ENOENT):
		return nil
	case err != nil:
		return err
	}
	return unix.Unlinkat(int(d), name, unix.AT_REMOVEDIR)
}

func (d fd) empty(name string) error {
	sub, err := d.openDir(name)
	if err != nil {
		return err
	}
	list, err := sub.names()
	for _, n := range list {
		err = errors.Join(err, sub.unlink(n))
	}
	return errors.Join(err, sub.close())
}

// write writes all bytes to an open file, from an offset on.
func (d fd) write(data []byte) error {
	for offset := 0; offset < len(data); {
		n, err := unix.Pwrite(int(d), data[offset:], int64(offset))
		if err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
		offset += max(n, 0)
	}
	return nil
}

// info is what is under a name.
type info struct {
	// mode has the kind of file and all bits that can be set, as the kernel has them.
	mode    uint32
	owner   owner
	size    int64
	device  uint64
	inode   uint64
	changed unix.Timespec
	// target is where a symlink leads.
	target string
}

func infoOf(st unix.Stat_t) info {
	return info{
		mode: st.Mode, owner: owner{uid: int(st.Uid), gid: int(st.Gid)}, size: st.Size, device: st.Dev, inode: st.Ino,
		changed: st.Ctim,
	}
}

// owner is a user and a group by number.
type owner struct{ uid, gid int }

func (i info) kind() uint32 { return i.mode & unix.S_IFMT }

func (i info) isFile() bool { return i.kind() == unix.S_IFREG }

func (i info) isDir() bool { return i.kind() == unix.S_IFDIR }

// has compares every mode bit that can be set, so that a stray sticky bit does not pass.
func (i info) has(mode fs.FileMode, o owner) bool {
	return i.mode&^unix.S_IFMT == bits(mode) && i.owner == o
}

// bits returns a mode as the kernel has it. See check for what can be in it.
func bits(mode fs.FileMode) uint32 {
	b := uint32(mode.Perm())
	if mode&fs.ModeSetgid != 0 {
		b |= unix.S_ISGID
	}
	return b
}

// failed names what was done, and to which name as a user knows it.
func failed(op, name string, err error) error {
	if errno, ok := err.(syscall.Errno); ok { //nolint:errorlint // A wrapped error has more text.
		return &fs.PathError{Op: op, Path: name, Err: errno}
	}
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		pe.Path = name
	}
	return err
}
