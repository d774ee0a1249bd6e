package volumefs

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// attributes are what every volume is mounted with, besides read-only. They hold for the writable
// view too.
const attributes = unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV | unix.MOUNT_ATTR_NOEXEC

// newMount makes an empty tmpfs that is mounted nowhere. It lives as long as the returned file or,
// once published, as long as the mount.
func (f *FS) newMount(l Limits) (*os.File, error) {
	ctx, err := unix.Fsopen("tmpfs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("fsopen tmpfs", err)
	}
	defer unix.Close(ctx)
	if err := f.configure(ctx, l); err != nil {
		return nil, err
	}
	mnt, err := unix.Fsmount(ctx, unix.FSMOUNT_CLOEXEC, attributes)
	if err != nil {
		return nil, os.NewSyscallError("fsmount", err)
	}
	return os.NewFile(uintptr(mnt), "volume"), nil
}

func (f *FS) configure(ctx int, l Limits) error {
	options := [][2]string{
		{"source", f.source},
		{"mode", "0755"},
		{"size", strconv.FormatInt(l.Bytes, 10)},
		{"nr_inodes", strconv.FormatInt(l.Inodes, 10)},
	}
	if f.selinuxContext != "" {
		options = append(options, [2]string{"context", f.selinuxContext})
	}
	for _, o := range options {
		if err := unix.FsconfigSetString(ctx, o[0], o[1]); err != nil {
			return configError(ctx, o[0]+"="+o[1], err)
		}
	}
	if err := f.optional.set(func(o option) error { return o.set(ctx) }); err != nil {
		return err
	}
	if err := unix.FsconfigCreate(ctx); err != nil {
		return configError(ctx, "create", err)
	}
	return nil
}

// configError adds what the kernel wrote about a refused option, which is more exact than the error
// number.
func configError(ctx int, what string, err error) error {
	err = os.NewSyscallError("fsconfig tmpfs "+what, err)
	var buf [256]byte
	n, readErr := unix.Read(ctx, buf[:])
	if readErr != nil || n <= 0 {
		return err
	}
	return fmt.Errorf("%w (kernel: %s)", err, strings.TrimSpace(string(buf[:n])))
}

// newView opens the volume that mnt holds and takes mnt over, also when it fails.
func (f *FS) newView(mnt *os.File, at Mount) (*View, error) {
	root, err := openRoot(mnt)
	if err != nil {
		return nil, errors.Join(err, mnt.Close())
	}
	return &View{Dir: root, fs: f, mnt: mnt, at: at}, nil
}

// Mount identifies one mount of a volume. No other mount that exists at the same time is equal to
// it. The zero value identifies none.
type Mount struct {
	id           uint64
	major, minor uint32 // Of the file system.
	inode        uint64 // Of the root directory.
}

// FileSystem identifies the file system of a mount, which all mounts of it have in common. No other
// file system that exists at the same time is equal to it. The zero value identifies none.
type FileSystem struct{ mount Mount }

// FileSystem returns what is mounted.
func (m Mount) FileSystem() FileSystem {
	m.id = 0
	return FileSystem{mount: m}
}

// SharesFilesWith reports whether both are mounts of one volume, which exist.
func (m Mount) SharesFilesWith(other Mount) bool {
	return m.FileSystem() == other.FileSystem() && m != Mount{}
}

// mountAt returns the mount at a path, or, for an empty path, the one whose root dir is. It fails
// with [ErrNotMounted] if that is not the root of a mount. Links are followed on the way.
func mountAt(dir int, path string) (Mount, error) {
	var st unix.Statx_t
	const flags = unix.AT_EMPTY_PATH | unix.AT_SYMLINK_NOFOLLOW | unix.AT_NO_AUTOMOUNT | unix.AT_STATX_DONT_SYNC
	if err := unix.Statx(dir, path, flags, unix.STATX_TYPE|unix.STATX_INO|unix.STATX_MNT_ID, &st); err != nil {
		return Mount{}, os.NewSyscallError("statx", err)
	}
	if st.Attributes&unix.STATX_ATTR_MOUNT_ROOT == 0 || st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return Mount{}, ErrNotMounted
	}
	return Mount{id: st.Mnt_id, major: st.Dev_major, minor: st.Dev_minor, inode: st.Ino}, nil
}

// openRoot opens the root directory of a mount, whose own file is only a handle.
func openRoot(mnt *os.File) (*os.File, error) {
	fd, err := unix.Openat(int(mnt.Fd()), ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("open", err)
	}
	return os.NewFile(uintptr(fd), "root"), nil
}

// makeReadOnly also takes a clone out of its peer group.
func makeReadOnly(mnt *os.File) error {
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY, Propagation: unix.MS_PRIVATE}
	return setAttributes(mnt, &attr)
}

// makePrivateAndWritable also takes the mount out of the peer group that a clone inherits, so that
// it is independent of any mount but itself.
func makePrivateAndWritable(mnt *os.File) error {
	attr := unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY, Propagation: unix.MS_PRIVATE}
	return setAttributes(mnt, &attr)
}

func setAttributes(mnt *os.File, attr *unix.MountAttr) error {
	err := unix.MountSetattr(int(mnt.Fd()), "", unix.AT_EMPTY_PATH, attr)
	return os.NewSyscallError("mount_setattr", err)
}

// cloneMount returns another mount of the volume that is mounted at a path, or, for an empty path,
// of the one that the descriptor dir is on.
func cloneMount(dir int, path string) (*os.File, error) {
	const flags = unix.OPEN_TREE_CLONE | unix.O_CLOEXEC | unix.AT_EMPTY_PATH | unix.AT_SYMLINK_NOFOLLOW
	fd, err := unix.OpenTree(dir, path, flags)
	if err != nil {
		return nil, os.NewSyscallError("open_tree", err)
	}
	return os.NewFile(uintptr(fd), "volume"), nil
}

func (f *FS) publish(mnt *os.File, target string) error {
	p, err := f.find(target)
	if err != nil {
		return err
	}
	defer p.Close()
	return publishAt(mnt, p)
}

// publishAt refuses everything that can be refused before it makes the mount read-only, and undoes
// the one thing it made.
func publishAt(mnt *os.File, p *place) error {
	made, err := p.mkdir()
	if err != nil {
		return err
	}
	if !made {
		return moveOnto(mnt, p)
	}
	if err := moveTo(mnt, p.parent, p.name); err != nil {
		return errors.Join(err, p.rmdir())
	}
	return nil
}

// moveTo makes the mount read-only and moves it to a name in a directory, or for none to the
// directory itself. It follows no link.
func moveTo(mnt *os.File, dir int, name string) error {
	if err := makeReadOnly(mnt); err != nil {
		return err
	}
	flags := unix.MOVE_MOUNT_F_EMPTY_PATH
	if name == "" {
		flags |= unix.MOVE_MOUNT_T_EMPTY_PATH
	}
	err := unix.MoveMount(int(mnt.Fd()), "", dir, name, flags)
	return os.NewSyscallError("move_mount", err)
}

// moveOnto moves the mount onto a directory that was there before.
func moveOnto(mnt *os.File, p *place) error {
	dir, err := p.open(unix.O_RDONLY)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	if err := checkVacant(dir); err != nil {
		return err
	}
	return moveTo(mnt, dir, "")
}

// checkVacant refuses a second mount on one target, and a directory with something in it: hidden
// now, it would stand in the way of removing the target later, when no caller is left to report it
// to.
func checkVacant(dir int) error {
	switch _, err := mountAt(dir, ""); {
	case err == nil:
		return ErrMounted
	case !errors.Is(err, ErrNotMounted):
		return err
	}
	name, err := firstName(dir)
	if err == nil && name != "" {
		err = fmt.Errorf("the target directory is not empty: it holds %q", name)
	}
	return err
}
