package volumefs

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
	mountutils "k8s.io/mount-utils"
)

// mountTable lists the mounts this process can see.
const mountTable = "/proc/self/mountinfo"

var (
	errSymlink      = errors.New("the target is a symlink, and is not followed")
	errNotDirectory = errors.New("the target is not a directory")
)

// openDir opens target itself and nothing it might point to. The caller adds access, such as O_RDONLY or O_PATH.
func openDir(target string, access int) (*os.File, error) {
	fd, err := unix.Open(target, access|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err == nil {
		return os.NewFile(uintptr(fd), target), nil
	}
	var st unix.Stat_t
	switch {
	case !errors.Is(err, unix.ENOTDIR) && !errors.Is(err, unix.ELOOP):
		return nil, os.NewSyscallError("open", err)
	case unix.Lstat(target, &st) != nil:
		return nil, os.NewSyscallError("open", err)
	case st.Mode&unix.S_IFMT == unix.S_IFLNK:
		return nil, errSymlink
	}
	return nil, errNotDirectory
}

// isMountRoot tells whether dir is where something is mounted, at the price of one call.
func isMountRoot(dir *os.File) (bool, error) {
	var st unix.Statx_t
	err := unix.Statx(int(dir.Fd()), "", unix.AT_EMPTY_PATH, unix.STATX_TYPE, &st)
	if err != nil {
		return false, os.NewSyscallError("statx", err)
	}
	return st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0, nil
}

// liveVolume is what [findLive] found. Whoever has it closes dir.
type liveVolume struct {
	dir  *os.File
	stat unix.Statfs_t
}

// findLive finds the volume at target without reading the mount table, which costs more the more volumes a node has: a
// published volume is the root of a tmpfs that is read-only, nosuid, nodev and noexec.
func findLive(target string) (*liveVolume, error) {
	target, err := cleanTarget(target)
	if err != nil {
		return nil, err
	}
	dir, err := openDir(target, unix.O_PATH)
	switch {
	case errors.Is(err, unix.ENOENT) || isBelowFile(target, err):
		return nil, ErrNotMounted
	case err != nil:
		return nil, err
	}
	live := &liveVolume{dir: dir}
	if err := live.check(); err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	return live, nil
}

func (v *liveVolume) check() error {
	root, err := isMountRoot(v.dir)
	switch {
	case err != nil:
		return err
	case !root:
		return ErrNotMounted
	}
	err = unix.Fstatfs(int(v.dir.Fd()), &v.stat)
	const flags = unix.ST_RDONLY | unix.ST_NOSUID | unix.ST_NODEV | unix.ST_NOEXEC
	switch {
	case mountutils.IsCorruptedMnt(err):
		return fmt.Errorf("%w of ours: %w", ErrNotMounted, os.NewSyscallError("fstatfs", err))
	case err != nil:
		return os.NewSyscallError("fstatfs", err)
	case v.stat.Type != unix.TMPFS_MAGIC || v.stat.Flags&flags != flags:
		return fmt.Errorf("%w of ours: something else is", ErrNotMounted)
	}
	return nil
}

func (v *liveVolume) usage() Usage {
	s, block := &v.stat, int64(v.stat.Bsize) //nolint:unconvert // It is narrower on some architectures.
	// A tmpfs of ours has some hundred thousands of each at most.
	blocks, freeBlocks, files, freeFiles := int64(s.Blocks), int64(s.Bfree), int64(s.Files), int64(s.Ffree) //nolint:gosec // As said.
	return Usage{
		BytesTotal:  blocks * block,
		BytesUsed:   (blocks - freeBlocks) * block,
		BytesFree:   freeBlocks * block,
		InodesTotal: files,
		InodesUsed:  files - freeFiles,
		InodesFree:  freeFiles,
	}
}

// ourMount returns the topmost mount at target if it is ours, nil if nothing is mounted there, and otherwise a
// *[ForeignMountError].
func (f *FS) ourMount(target string) (*mountutils.MountInfo, error) {
	target, err := cleanTarget(target)
	if err != nil {
		return nil, err
	}
	m, err := topMount(target)
	if err != nil || m == nil {
		return nil, err
	}
	if m.FsType != "tmpfs" || m.Source != f.source {
		return nil, &ForeignMountError{Target: target, FSType: m.FsType, Source: m.Source}
	}
	return m, nil
}

// topMount returns the mount that somebody who opens target gets into, nil when target is on its parent's.
func topMount(target string) (*mountutils.MountInfo, error) {
	var st unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, target, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT,
		unix.STATX_TYPE|unix.STATX_MNT_ID, &st)
	switch {
	case errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR):
		return nil, nil
	case mountutils.IsCorruptedMnt(err):
		return mountByPath(target, os.NewSyscallError("statx", err))
	case err != nil:
		return nil, os.NewSyscallError("statx", err)
	case st.Mode&unix.S_IFMT == unix.S_IFLNK:
		return nil, errSymlink
	case st.Attributes&unix.STATX_ATTR_MOUNT_ROOT == 0:
		return nil, nil
	}
	return mountByID(st.Mnt_id)
}

func mountByID(id uint64) (*mountutils.MountInfo, error) {
	mounts, err := mountutils.ParseMountInfo(mountTable)
	if err != nil {
		return nil, fmt.Errorf("read the mount table: %w", err)
	}
	want := strconv.FormatUint(id, 10)
	for i := range mounts {
		if strconv.Itoa(mounts[i].ID) == want {
			return &mounts[i], nil
		}
	}
	return nil, fmt.Errorf("mount %s is not in %s", want, mountTable)
}

// mountByPath is for a target that the kernel refuses to look at, for instance because the server of its file system is
// gone. Where no such mount exists either, why is what there is to say.
func mountByPath(target string, why error) (*mountutils.MountInfo, error) {
	parent, err := filepath.EvalSymlinks(filepath.Dir(target))
	if err != nil {
		return nil, errors.Join(why, err)
	}
	mounts, err := mountutils.ParseMountInfo(mountTable)
	if err != nil {
		return nil, fmt.Errorf("read the mount table: %w", err)
	}
	// The table spells these bytes in octal.
	spell := strings.NewReplacer(" ", `\040`, "\t", `\011`, "\n", `\012`, `\`, `\134`)
	want := spell.Replace(filepath.Join(parent, filepath.Base(target)))
	for i := len(mounts) - 1; i >= 0; i-- {
		if mounts[i].MountPoint == want {
			return &mounts[i], nil
		}
	}
	return nil, why
}

// isBelowFile tells whether err, from a call on target, means that a parent of target is not a directory: then target
// does not exist.
func isBelowFile(target string, err error) bool {
	var st unix.Stat_t
	return errors.Is(err, unix.ENOTDIR) && errors.Is(unix.Lstat(target, &st), unix.ENOTDIR)
}

// oneEntry names something that is in dir, for a message.
func oneEntry(dir string) string {
	d, err := os.Open(dir)
	if err != nil {
		return "something"
	}
	defer d.Close()
	names, err := d.Readdirnames(1)
	if err != nil {
		return "something"
	}
	return strconv.Quote(names[0])
}

func ignoreEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
