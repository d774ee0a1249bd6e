package volumefs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// place is an entry of a directory below the root: where a target is, or would be. Whatever becomes
// of its path meanwhile, what is done goes on in that directory. The caller closes the place.
type place struct {
	parent int // A descriptor, and only a handle.
	name   string
	// target is the path, for messages.
	target string
}

// find resolves all of target but its last element, without following a link. The root is opened
// each time, because something may have been mounted on it since the last time. The error is one
// for which isNowhere holds if target cannot exist.
func (f *FS) find(target string) (*place, error) {
	target, err := cleanTarget(target)
	if err != nil {
		return nil, err
	}
	rest, err := below(f.root, target)
	if err != nil {
		return nil, err
	}
	root, err := f.openTop()
	if err != nil {
		return nil, err
	}
	defer unix.Close(root)
	parent := filepath.Dir(rest)
	fd, err := openBeneath(root, parent)
	switch {
	case errors.Is(err, unix.ELOOP):
		link := firstLink(root, parent)
		return nil, &SymlinkError{Path: filepath.Join(f.root, link), Target: target, To: f.behind(root, link)}
	case err != nil:
		return nil, fmt.Errorf("open its parent directory: %w", os.NewSyscallError("openat2", err))
	}
	return &place{parent: fd, name: filepath.Base(target), target: target}, nil
}

// behind returns where a link leads if it is in the place of the directory of all targets, and ""
// for any other.
func (f *FS) behind(root int, link string) string {
	if link != f.dir {
		return ""
	}
	var buf [unix.PathMax]byte
	n, err := unix.Readlinkat(root, link, buf[:])
	if err != nil || n == 0 {
		return ""
	}
	to := string(buf[:n])
	if !filepath.IsAbs(to) {
		to = filepath.Join(filepath.Dir(filepath.Join(f.root, link)), to)
	}
	return to
}

// openTop opens a handle of the directory below which targets are. To it links are followed: its
// path is the operator's.
func (f *FS) openTop() (fd int, err error) {
	fd, err = unix.Open(f.root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("open %s, below which targets are: %w", f.root, os.NewSyscallError("open", err))
	}
	return fd, nil
}

// isNowhere reports whether err, from find, means that one of the target's parents does not exist
// or is not a directory: then the target does not exist either.
func isNowhere(err error) bool { return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) }

// mostResolutions is how often openBeneath tries to resolve a path while others rename directories.
const mostResolutions = 32

// openBeneath opens a handle of a directory below dir, or dir itself for a dot. It gives ELOOP
// where a link is on the way. Mounts are crossed.
func openBeneath(dir int, path string) (fd int, err error) {
	how := unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	}
	for range mostResolutions {
		fd, err = unix.Openat2(dir, path, &how)
		if !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR) {
			break
		}
	}
	return fd, err
}

// firstLink returns, for a message, the element of a path that is the link which stopped
// openBeneath. If it is gone already, it was the last one for all we know.
func firstLink(dir int, path string) string {
	for i, c := range path {
		if c != '/' {
			continue
		}
		fd, err := openBeneath(dir, path[:i])
		if errors.Is(err, unix.ELOOP) {
			return path[:i]
		}
		if err == nil {
			_ = unix.Close(fd)
		}
	}
	return path
}

// Close gives the place up.
func (p *place) Close() error { return unix.Close(p.parent) }

// open opens the directory at the place itself and nothing it might point to. The caller adds
// access, such as O_RDONLY or O_PATH, and closes the descriptor.
func (p *place) open(access int) (fd int, err error) {
	fd, err = unix.Openat(p.parent, p.name, access|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err == nil {
		return fd, nil
	}
	var st unix.Stat_t
	switch {
	case !errors.Is(err, unix.ENOTDIR) && !errors.Is(err, unix.ELOOP):
		return -1, os.NewSyscallError("open", err)
	case unix.Fstatat(p.parent, p.name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil:
		return -1, os.NewSyscallError("open", err)
	case st.Mode&unix.S_IFMT == unix.S_IFLNK:
		return -1, &SymlinkError{Path: p.target, Target: p.target}
	}
	return -1, errNotDirectory
}

// stat looks at the place itself, and through what is mounted there. It has what topMount needs.
func (p *place) stat() (unix.Statx_t, error) {
	var st unix.Statx_t
	err := unix.Statx(p.parent, p.name, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT,
		unix.STATX_TYPE|unix.STATX_MNT_ID, &st)
	return st, os.NewSyscallError("statx", err)
}

// mkdir makes a directory at the place. It returns false if there is one already.
func (p *place) mkdir() (made bool, err error) {
	err = unix.Mkdirat(p.parent, p.name, 0o750)
	if errors.Is(err, unix.EEXIST) {
		return false, nil
	}
	return err == nil, os.NewSyscallError("mkdir", err)
}

// rmdir removes an empty directory.
func (p *place) rmdir() error {
	return os.NewSyscallError("rmdir", unix.Unlinkat(p.parent, p.name, unix.AT_REMOVEDIR))
}

// unmount takes away the topmost mount at the place. The call knows paths alone; /proc has one for
// the parent's handle.
func (p *place) unmount() error {
	return os.NewSyscallError("umount", unix.Unmount(p.handle()+"/"+p.name, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW))
}

// path returns the place as the mount table has it: with no link in it.
func (p *place) path() (string, error) {
	parent, err := os.Readlink(p.handle())
	if err != nil {
		return "", err
	}
	return filepath.Join(parent, p.name), nil
}

func (p *place) handle() string { return "/proc/self/fd/" + strconv.Itoa(p.parent) }
