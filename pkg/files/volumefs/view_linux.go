package volumefs

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// View is a writable way into one volume that nobody else has. Its user closes it: as long as it is
// open the volume's files stay, mounted or not. It is not safe for concurrent use.
type View struct {
	// Dir is the volume's root directory. Close closes it.
	Dir *os.File

	fs          *FS
	mnt         *os.File
	at          Mount // Zero for a volume that is not published.
	isNew       bool  // It was created, not opened.
	isPublished bool  // It was created and published.
	isClosed    bool
}

// Publish makes the volume read-only and mounts it at target, whose parent directory must exist. A
// missing target directory is made with mode 0750 less the umask; one that is there must be an
// empty directory: a symlink (*[SymlinkError]), also above it, a file, a directory with something
// in it and a mount point ([ErrMounted]) are refused.
//
// Files of the volume still open for writing make it fail. A failure leaves the target as it was,
// and Publish may be tried again. After a success [View.Dir] can only be read. The view of a live
// volume cannot be published.
func (v *View) Publish(target string) error {
	switch {
	case v.isClosed:
		return fmt.Errorf("publish volume at %s: %w", target, os.ErrClosed)
	case !v.isNew:
		return fmt.Errorf("publish volume at %s: this is a view of a live volume", target)
	case v.isPublished: // A second move would take the volume away from the first target.
		return fmt.Errorf("publish volume at %s: this volume is published already", target)
	}
	target, err := cleanTarget(target)
	if err != nil {
		return fmt.Errorf("publish volume: %w", err)
	}
	if err := v.publish(target); err != nil {
		return fmt.Errorf("publish volume at %s: %w", target, err)
	}
	return nil
}

func (v *View) publish(target string) error {
	at, err := mountAt(int(v.mnt.Fd()), "")
	if err == nil {
		err = v.fs.publish(v.mnt, target)
	}
	if err == nil {
		v.at, v.isPublished = at, true
	}
	return err
}

// Mount returns the mount that the view was opened at or published as. It is zero for a volume that
// is not published.
func (v *View) Mount() Mount { return v.at }

// Share mounts the view's volume, which is live at one target, at a second one as well, read-only,
// and returns that mount. The rules of [View.Publish] for targets hold for the second one. The
// error wraps [ErrNotMounted] if another volume is mounted at the first one. A failure leaves both
// as they were.
func (v *View) Share(from, to string) (Mount, error) {
	if v.isClosed {
		return Mount{}, fmt.Errorf("share volume at %s: %w", from, os.ErrClosed)
	}
	m, err := v.share(from, to)
	if err != nil {
		return Mount{}, fmt.Errorf("share volume at %s with %s: %w", from, to, err)
	}
	return m, nil
}

// share clones the mount at one target and publishes the clone at the other one. Whatever the path
// leads to by now, the clone must be of this volume.
func (v *View) share(from, to string) (Mount, error) {
	from, err := cleanTarget(from)
	if err != nil {
		return Mount{}, err
	}
	mnt, err := cloneMount(unix.AT_FDCWD, from)
	if err != nil {
		return Mount{}, err
	}
	defer mnt.Close() //nolint:errcheck // The published mount stays.
	m, err := mountAt(int(mnt.Fd()), "")
	switch {
	case err != nil:
		return Mount{}, err
	case !m.SharesFilesWith(v.at):
		return Mount{}, ErrNotMounted
	}
	return m, v.fs.publish(mnt, to)
}

// Usage returns how much of the volume is used.
func (v *View) Usage() (Usage, error) {
	if v.isClosed {
		return Usage{}, fmt.Errorf("get usage of a volume: %w", os.ErrClosed)
	}
	u, err := usageOf(int(v.mnt.Fd()))
	if err != nil {
		return Usage{}, fmt.Errorf("get usage of a volume: %w", err)
	}
	return u, nil
}

// Close closes Dir and gives the view up. A volume that was never published is gone with it; a
// published one stays. Closing twice is harmless.
func (v *View) Close() error {
	if v.isClosed {
		return nil
	}
	v.isClosed = true
	return errors.Join(v.Dir.Close(), v.mnt.Close())
}
