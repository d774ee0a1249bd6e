package volumefs

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
	mountutils "k8s.io/mount-utils"
)

// mountTable lists the mounts this process can see.
const mountTable = "/proc/self/mountinfo"

var errNotDirectory = errors.New("the target is not a directory")

// liveVolume is the result of [findLive]. The caller closes dir.
type liveVolume struct {
	dir   int
	mount Mount
	stat  unix.Statfs_t
}

func (v *liveVolume) close() error { return unix.Close(v.dir) }

// findLive finds the volume at target without reading the mount table, which costs more the more
// volumes a node has: a published volume is the root of a tmpfs that is read-only, nosuid, nodev
// and noexec.
func (f *FS) findLive(target string) (*liveVolume, error) {
	dir, err := f.openTarget(target)
	switch {
	case isNowhere(err):
		return nil, ErrNotMounted
	case err != nil:
		return nil, err
	}
	live := &liveVolume{dir: dir}
	if err := live.check(); err != nil {
		return nil, errors.Join(err, live.close())
	}
	return live, nil
}

func (f *FS) openTarget(target string) (fd int, err error) {
	p, err := f.find(target)
	if err != nil {
		return -1, err
	}
	defer p.Close()
	return p.open(unix.O_PATH)
}

func (v *liveVolume) check() error {
	mount, err := mountAt(v.dir, "")
	if err != nil {
		return err
	}
	v.mount = mount
	err = unix.Fstatfs(v.dir, &v.stat)
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

// usageOf returns the usage of the file system that a descriptor is on.
func usageOf(fd int) (Usage, error) {
	var s unix.Statfs_t
	if err := unix.Fstatfs(fd, &s); err != nil {
		return Usage{}, os.NewSyscallError("fstatfs", err)
	}
	return usage(&s), nil
}

func usage(s *unix.Statfs_t) Usage {
	block := int64(s.Bsize) //nolint:unconvert // It is narrower on some architectures.
	//nolint:gosec // A tmpfs of ours has some hundred thousands of each at most.
	blocks, freeBlocks, files, freeFiles := int64(s.Blocks), int64(s.Bfree), int64(s.Files), int64(s.Ffree)
	return Usage{
		BytesTotal:  blocks * block,
		BytesUsed:   (blocks - freeBlocks) * block,
		BytesFree:   freeBlocks * block,
		InodesTotal: files,
		InodesUsed:  files - freeFiles,
		InodesFree:  freeFiles,
	}
}

// ourMount returns the topmost mount at a place if it is ours, nil if nothing is mounted there, and
// otherwise a *[ForeignMountError].
func (f *FS) ourMount(p *place) (*mountutils.MountInfo, error) {
	m, err := topMount(p)
	if err != nil || m == nil {
		return nil, err
	}
	if m.FsType != "tmpfs" || m.Source != f.source {
		return nil, &ForeignMountError{Target: p.target, FSType: m.FsType, Source: m.Source}
	}
	return m, nil
}

// topMount returns the mount that an open of the place reaches. Nil means that the place is not a
// mount point.
func topMount(p *place) (*mountutils.MountInfo, error) {
	st, err := p.stat()
	switch {
	case errors.Is(err, unix.ENOENT):
		return nil, nil
	case mountutils.IsCorruptedMnt(err):
		return mountByPath(p, err)
	case err != nil:
		return nil, err
	case st.Mode&unix.S_IFMT == unix.S_IFLNK:
		return nil, &SymlinkError{Path: p.target, Target: p.target}
	case st.Attributes&unix.STATX_ATTR_MOUNT_ROOT == 0:
		return nil, nil
	}
	return mountByID(st.Mnt_id)
}

// mountByID looks for one line of the table, and holds no other: the table of a node is as long as
// it has volumes.
func mountByID(id uint64) (*mountutils.MountInfo, error) {
	table, err := os.Open(mountTable)
	if err != nil {
		return nil, fmt.Errorf("read the mount table: %w", err)
	}
	defer table.Close()
	prefix := append(strconv.AppendUint(nil, id, 10), ' ')
	lines := bufio.NewScanner(table)
	for lines.Scan() {
		if bytes.HasPrefix(lines.Bytes(), prefix) {
			return parseMount(lines.Bytes())
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read the mount table: %w", err)
	}
	return nil, fmt.Errorf("mount %d is not in %s", id, mountTable)
}

// parseMount returns the kind and the source of a mount from its line. They come after the only
// dash that stands alone.
func parseMount(line []byte) (*mountutils.MountInfo, error) {
	_, rest, found := strings.Cut(string(line), " - ")
	fields := strings.Fields(rest)
	if !found || len(fields) < 2 {
		return nil, fmt.Errorf("a line of %s is not one: %q", mountTable, line)
	}
	return &mountutils.MountInfo{FsType: fields[0], Source: fields[1]}, nil
}

// mountByPath is for a place that the kernel refuses to look at, for instance because the server of
// its file system is gone. Where no such mount exists either, it returns why.
func mountByPath(p *place, why error) (*mountutils.MountInfo, error) {
	path, err := p.path()
	if err != nil {
		return nil, errors.Join(why, err)
	}
	mounts, err := mountutils.ParseMountInfo(mountTable)
	if err != nil {
		return nil, fmt.Errorf("read the mount table: %w", err)
	}
	// The table spells these bytes in octal.
	spell := strings.NewReplacer(" ", `\040`, "\t", `\011`, "\n", `\012`, `\`, `\134`)
	want := spell.Replace(path)
	for i := len(mounts) - 1; i >= 0; i-- {
		if mounts[i].MountPoint == want {
			return &mounts[i], nil
		}
	}
	return nil, why
}

// oneEntry names something that is in the directory at a place, for a message.
func oneEntry(p *place) string {
	dir, err := p.open(unix.O_RDONLY)
	if err != nil {
		return "something"
	}
	defer unix.Close(dir)
	name, err := firstName(dir)
	if err != nil || name == "" {
		return "something"
	}
	return strconv.Quote(name)
}

// firstName returns a name in the directory; none when it is empty. It works once.
func firstName(dir int) (string, error) {
	var buffer [4096]byte
	for {
		n, err := unix.ReadDirent(dir, buffer[:])
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil || n == 0:
			return "", os.NewSyscallError("getdents", err)
		}
		if _, _, names := unix.ParseDirent(buffer[:n], 1, nil); len(names) > 0 {
			return names[0], nil
		}
	}
}
