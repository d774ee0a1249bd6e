package volumefs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// FS makes volumes as kernel mounts and finds them again. It is safe for concurrent use.
type FS struct {
	root           string
	dir            string
	source         string
	selinuxContext string // Check may change it, and nothing else.
	refused        error  // Why there is no context.
	optional       options
}

// New returns an FS. It makes no system call; see [FS.Check].
func New(c Config) *FS {
	return &FS{root: filepath.Clean(c.Root), dir: c.Dir, source: c.Source, selinuxContext: c.SELinuxContext}
}

// Check looks for the directory below which targets are, and makes and drops a volume to see that
// this kernel, at least 5.12, lets this process do so. Its error names what is missing.
//
// If the kernel refuses the SELinux context, because its policy does not know it, volumes are
// created without one from then on, and [FS.RefusedContext] returns the reason.
func (f *FS) Check() error {
	if err := f.probeRoot(); err != nil {
		return fmt.Errorf("check where volumes go: %w", err)
	}
	err := f.probe()
	if errors.Is(err, unix.EINVAL) && f.selinuxContext != "" {
		f.refused, f.selinuxContext = err, ""
		err = f.probe()
	}
	if err != nil {
		return fmt.Errorf("check that volumes can be made: %w%s", err, hint(err))
	}
	return nil
}

// RefusedContext returns why volumes have no SELinux context although there should be one; nil if
// they have it, or should not. Call it after [FS.Check].
func (f *FS) RefusedContext() error { return f.refused }

func (f *FS) probe() error {
	if err := probeBeneath(); err != nil {
		return err
	}
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

// probeRoot sees that the root is there. Without it every volume of an earlier run would look as if
// it were gone. Behind a link in the root no volume could be published.
func (f *FS) probeRoot() error {
	if !filepath.IsAbs(f.root) {
		return errNotAbsolute(f.root)
	}
	root, err := f.openTop()
	if err != nil {
		return fmt.Errorf("%w: is it the kubelet's, and mounted into the container?", err)
	}
	defer unix.Close(root)
	if to := f.behind(root, f.dir); to != "" {
		path := filepath.Join(f.root, f.dir)
		return &SymlinkError{Path: path, To: to}
	}
	return nil
}

// probeBeneath sees that directories can be opened without following links.
func probeBeneath() error {
	root, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("open", err)
	}
	defer unix.Close(root)
	fd, err := openBeneath(root, ".")
	if err != nil {
		return os.NewSyscallError("openat2", err)
	}
	return unix.Close(fd)
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

// Create makes an empty volume that nobody else can see, with a root directory of mode 0755
// whatever the umask. Closed without [View.Publish] it leaves nothing behind, and so does a process
// that dies.
func (f *FS) Create(l Limits) (*View, error) {
	if err := l.check(); err != nil {
		return nil, fmt.Errorf("create volume: %w", err)
	}
	mnt, err := f.newMount(l)
	if err != nil {
		return nil, fmt.Errorf("create volume: %w", err)
	}
	v, err := f.newView(mnt, Mount{})
	if err != nil {
		return nil, fmt.Errorf("create volume: %w", err)
	}
	v.isNew = true
	return v, nil
}

// Open returns a writable view of the volume that is live at target, while everybody else's stays
// read-only. It wraps [ErrNotMounted] when none of ours is there, and *[SymlinkError] when target
// is a symlink or lies behind one.
//
// It looks only at what is cheap to ask, the kind and the flags of the mount; [FS.Mounted] also
// knows by name whether the mount is ours.
func (f *FS) Open(target string) (*View, error) {
	live, err := f.findLive(target)
	if err != nil {
		return nil, fmt.Errorf("open volume at %s: %w", target, err)
	}
	defer live.close() //nolint:errcheck // Only a handle.
	mnt, err := cloneMount(live.dir, "")
	if err != nil {
		return nil, fmt.Errorf("open volume at %s: %w", target, err)
	}
	if err := makePrivateAndWritable(mnt); err != nil {
		return nil, fmt.Errorf("open volume at %s: %w", target, errors.Join(err, mnt.Close()))
	}
	v, err := f.newView(mnt, live.mount)
	if err != nil {
		return nil, fmt.Errorf("open volume at %s: %w", target, err)
	}
	return v, nil
}

// Usage returns the usage of the volume at target. It wraps [ErrNotMounted] if no volume of ours is
// there, judged as by [FS.Open].
func (f *FS) Usage(target string) (Usage, error) {
	live, err := f.findLive(target)
	if err != nil {
		return Usage{}, fmt.Errorf("get usage of volume at %s: %w", target, err)
	}
	defer live.close() //nolint:errcheck // Only a handle.
	return usage(&live.stat), nil
}

// Find returns the mount of the volume that is live at target. It wraps [ErrNotMounted] if no
// volume of ours is there, judged as by [FS.Open].
func (f *FS) Find(target string) (Mount, error) {
	live, err := f.findLive(target)
	if err != nil {
		return Mount{}, fmt.Errorf("look for volume at %s: %w", target, err)
	}
	defer live.close() //nolint:errcheck // Only a handle.
	return live.mount, nil
}

// IsAt reports, by one system call, whether a mount is still what is mounted at target. It returns
// false if it cannot find out; [FS.Open] then returns the reason.
func (f *FS) IsAt(target string, m Mount) bool {
	target, err := cleanTarget(target)
	if err != nil {
		return false
	}
	there, err := mountAt(unix.AT_FDCWD, target)
	return err == nil && there == m
}

// Mounted reports whether one of our volumes is mounted at target. A *[ForeignMountError] means
// that something else is, a *[SymlinkError] that target cannot be a volume at all, because it is a
// symlink or lies behind one.
func (f *FS) Mounted(target string) (bool, error) {
	mounted, err := f.isMounted(target)
	if err != nil {
		return false, fmt.Errorf("look for volume at %s: %w", target, err)
	}
	return mounted, nil
}

func (f *FS) isMounted(target string) (bool, error) {
	p, err := f.find(target)
	switch {
	case isNowhere(err):
		return false, nil
	case err != nil:
		return false, err
	}
	defer p.Close()
	m, err := f.ourMount(p)
	return m != nil, err
}

// Unmount takes away every volume of ours that is mounted at target, then the target directory.
// Files that are open in the volume stay usable until they are closed. A target without a mount, or
// that does not exist, is not an error.
//
// It never deletes a file: a target directory that is not empty without our mount is an error, and
// so are a foreign mount (*[ForeignMountError]) and a symlink in place of the target or a directory
// above it (*[SymlinkError]): nothing is touched where it leads, and what was mounted before it
// came stays until it is gone.
func (f *FS) Unmount(target string) error {
	target, err := cleanTarget(target)
	if err != nil {
		return fmt.Errorf("unmount volume: %w", err)
	}
	if err := f.unmount(target); err != nil {
		return fmt.Errorf("unmount volume at %s: %w", target, err)
	}
	return nil
}

func (f *FS) unmount(target string) error {
	p, err := f.find(target)
	switch {
	case isNowhere(err):
		return nil
	case err != nil:
		return err
	}
	defer p.Close()
	return f.unmountAt(p)
}

func (f *FS) unmountAt(p *place) error {
	if err := f.unmountAll(p); err != nil {
		return err
	}
	return removeTarget(p)
}

// unmountAll peels the mounts at a place from the top, so that what a foreign one covers is not
// touched.
func (f *FS) unmountAll(p *place) error {
	for {
		m, err := f.ourMount(p)
		if err != nil || m == nil {
			return err
		}
		if err := p.unmount(); err != nil {
			return err
		}
	}
}

func removeTarget(p *place) error {
	err := p.rmdir()
	switch {
	case err == nil || errors.Is(err, unix.ENOENT):
		return nil
	case errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.EEXIST):
		return fmt.Errorf("the directory holds %s, which is not ours to delete", oneEntry(p))
	case errors.Is(err, unix.ENOTDIR):
		return errNotDirectory
	}
	return err
}
