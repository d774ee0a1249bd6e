package publish

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// The layout of a volume with one file.
const (
	generation = "..2026_01_02_03_04_05.000000000"
	fileName   = "payload"
)

// raw makes a volume with one file, as bare system calls in the order in which any driver of such volumes needs them, and
// nothing else: no request, no lock, no record, no check.
func raw(target string, content []byte) error {
	mount, err := newTmpfs(int64(4*len(content) + 1<<20))
	if err != nil {
		return err
	}
	defer unix.Close(mount)
	if err := fill(mount, content); err != nil {
		return err
	}
	readOnly := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
	if err := unix.MountSetattr(mount, "", unix.AT_EMPTY_PATH, &readOnly); err != nil {
		return os.NewSyscallError("mount_setattr", err)
	}
	if err := unix.Mkdir(target, 0o750); err != nil {
		return os.NewSyscallError("mkdir", err)
	}
	err = unix.MoveMount(mount, "", unix.AT_FDCWD, target, unix.MOVE_MOUNT_F_EMPTY_PATH)
	return os.NewSyscallError("move_mount", err)
}

func newTmpfs(size int64) (int, error) {
	fs, err := unix.Fsopen("tmpfs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, os.NewSyscallError("fsopen", err)
	}
	defer unix.Close(fs)
	for _, o := range [][2]string{
		{"source", "floor"}, {"mode", "0755"}, {"size", strconv.FormatInt(size, 10)}, {"nr_inodes", "1024"},
	} {
		if err := unix.FsconfigSetString(fs, o[0], o[1]); err != nil {
			return -1, os.NewSyscallError("fsconfig "+o[0], err)
		}
	}
	if err := unix.FsconfigSetFlag(fs, "noswap"); err != nil && !errors.Is(err, unix.EINVAL) {
		return -1, os.NewSyscallError("fsconfig noswap", err)
	}
	if err := unix.FsconfigCreate(fs); err != nil {
		return -1, os.NewSyscallError("fsconfig create", err)
	}
	mount, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOEXEC)
	return mount, os.NewSyscallError("fsmount", err)
}

// fill writes the layout that the kubelet's volumes have.
func fill(mount int, content []byte) error {
	if err := unix.Mkdirat(mount, generation, 0o755); err != nil {
		return os.NewSyscallError("mkdirat", err)
	}
	fd, err := unix.Openat(mount, generation+"/"+fileName, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return os.NewSyscallError("openat", err)
	}
	_, err = unix.Write(fd, content)
	if err := errors.Join(os.NewSyscallError("write", err), unix.Close(fd)); err != nil {
		return err
	}
	if err := unix.Symlinkat(generation, mount, "..data"); err != nil {
		return os.NewSyscallError("symlinkat", err)
	}
	return os.NewSyscallError("symlinkat", unix.Symlinkat("..data/"+fileName, mount, fileName))
}

// drop takes away what raw has made.
func drop(target string) error {
	if err := unix.Unmount(target, unix.MNT_DETACH); err != nil {
		return &os.PathError{Op: "unmount", Path: target, Err: err}
	}
	return os.Remove(target)
}

// floorTarget is the place of the n-th volume of the floor.
func floorTarget(dir string, n int) string { return filepath.Join(dir, "floor-"+strconv.Itoa(n)) }
