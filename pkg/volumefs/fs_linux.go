package volumefs

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// FS makes volumes as kernel mounts and finds them again. It is safe for concurrent use.
type FS struct {
	source         string
	selinuxContext string
	// noswapRefused spares later volumes the attempt once the kernel has said no: it is older than 6.4, or we are
	// in a user namespace.
	noswapRefused atomic.Bool
}

// New returns an FS. It makes no system call; see [FS.Check].
func New(c Config) *FS {
	return &FS{source: c.Source, selinuxContext: c.SELinuxContext}
}

// Check makes and drops a volume to see that this kernel, at least 5.12, lets this process do so. Its error says what
// is missing.
func (f *FS) Check() error {
	if err := f.probe(); err != nil {
		return fmt.Errorf("check that volumes can be made: %w%s", err, hint(err))
	}
	return nil
}

func (f *FS) probe() error {
	mnt, err := f.newMount(Limits{Bytes: int64(os.Getpagesize()), Inodes: 2})
	if err != nil {
		return err
	}
	defer mnt.Close()
	root, err := openRoot(mnt)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := makeReadOnly(mnt); err != nil {
		return err
	}
	return makePrivateAndWritable(mnt)
}

// hint explains the errors that a wrongly set up node causes.
func hint(err error) string {
	switch {
	case errors.Is(err, unix.ENOSYS):
		return ": Linux 5.12 or newer is required" + runningKernel()
	case errors.Is(err, unix.EPERM):
		return ": CAP_SYS_ADMIN is missing (run the container privileged), or a seccomp profile forbids the call"
	case errors.Is(err, os.ErrNotExist):
		return ": is /proc mounted?"
	}
	return ""
}

func runningKernel() string {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return ""
	}
	return ", this is " + unix.ByteSliceToString(u.Release[:])
}

// Create makes an empty volume that nobody else can see, with a root directory of mode 0755 whatever the umask. Closed
// without [View.Publish] it leaves nothing behind, and so does a process that dies.
func (f *FS) Create(l Limits) (*View, error) {
	if err := l.check(); err != nil {
		return nil, fmt.Errorf("create volume: %w", err)
	}
	mnt, err := f.newMount(l)
	if err != nil {
		return nil, fmt.Errorf("create volume: %w", err)
	}
	v, err := newView(mnt)
	if err != nil {
		return nil, fmt.Errorf("create volume: %w", err)
	}
	v.publish = func(target string) error { return publish(mnt, target) }
	return v, nil
}

// Open returns a writable view of the volume that is live at target, while everybody else's stays read-only. It wraps
// [ErrNotMounted] when none of ours is there.
//
// It looks only at what is cheap to ask, the kind and the flags of the mount; [FS.Mounted] also knows by name whether
// the mount is ours.
func (f *FS) Open(target string) (*View, error) {
	live, err := findLive(target)
	if err != nil {
		return nil, fmt.Errorf("open volume at %s: %w", target, err)
	}
	defer live.dir.Close()
	mnt, err := cloneMount(live.dir)
	if err != nil {
		return nil, fmt.Errorf("open volume at %s: %w", target, err)
	}
	v, err := newView(mnt)
	if err != nil {
		return nil, fmt.Errorf("open volume at %s: %w", target, err)
	}
	return v, nil
}

// Usage tells how full the volume at target is. It wraps [ErrNotMounted] when none of ours is there, judged as by
// [FS.Open].
func (f *FS) Usage(target string) (Usage, error) {
	live, err := findLive(target)
	if err != nil {
		return Usage{}, fmt.Errorf("get usage of volume at %s: %w", target, err)
	}
	defer live.dir.Close()
	return live.usage(), nil
}

// Mounted tells whether one of our volumes is mounted at target. A *[ForeignMountError] says that something else is,
// another error that target cannot be a volume at all, because it is a symlink.
func (f *FS) Mounted(target string) (bool, error) {
	m, err := f.ourMount(target)
	if err != nil {
		return false, fmt.Errorf("look for volume at %s: %w", target, err)
	}
	return m != nil, nil
}

// Unmount takes away every volume of ours that is mounted at target, then the target directory. Files that are open in
// the volume stay usable until they are closed. A target where nothing is, or that does not exist, is no error.
//
// It never deletes a file: a target directory that is not empty without our mount is an error, and so are a symlink and
// a foreign mount (*[ForeignMountError]).
func (f *FS) Unmount(target string) error {
	target, err := cleanTarget(target)
	if err != nil {
		return fmt.Errorf("unmount volume: %w", err)
	}
	if err := f.unmountAll(target); err != nil {
		return fmt.Errorf("unmount volume at %s: %w", target, err)
	}
	if err := removeTarget(target); err != nil {
		return fmt.Errorf("unmount volume at %s: %w", target, err)
	}
	return nil
}

// unmountAll peels the mounts at target from the top, so that what a foreign one covers is not touched.
func (f *FS) unmountAll(target string) error {
	for {
		m, err := f.ourMount(target)
		if err != nil || m == nil {
			return err
		}
		if err := unix.Unmount(target, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil {
			return os.NewSyscallError("umount", err)
		}
	}
}

func removeTarget(target string) error {
	err := unix.Rmdir(target)
	switch {
	case err == nil || errors.Is(err, unix.ENOENT) || isBelowFile(target, err):
		return nil
	case errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.EEXIST):
		return fmt.Errorf("the directory holds %s, which is not ours to delete", oneEntry(target))
	case errors.Is(err, unix.ENOTDIR):
		return errNotDirectory
	}
	return os.NewSyscallError("rmdir", err)
}
