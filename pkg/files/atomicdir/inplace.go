package atomicdir

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/liveconfig-csi/liveconfig/pkg/files/tree"
)

// rewrite is a file that changes in its inode.
type rewrite struct {
	file tree.File
	// old is what the file was.
	old info
	// sameBytes and right (mode, owner and source) are what need not change.
	sameBytes, right bool
}

func (r rewrite) grows() bool { return int64(len(r.file.Data)) > r.old.size }

// reserve is step 5 of a write: once a file's first byte has changed, the last one must not fail
// for want of space.
func (w *plainWrite) reserve() error {
	for _, r := range w.rewrites {
		if !r.grows() {
			continue
		}
		w.reservations = append(w.reservations, r)
		if err := w.reserveFor(r); err != nil {
			return err
		}
	}
	return nil
}

func (w *plainWrite) reserveFor(r rewrite) error {
	return w.withFile(r.file.Path, func(file fd) error {
		return w.do("reserve", r.file.Path, func() error {
			err := allocate(file, int64(len(r.file.Data)))
			if errors.Is(err, unix.EOPNOTSUPP) { // Some file systems cannot; a tmpfs can.
				return nil
			}
			return err
		})
	})
}

// withFile opens a file for writing and calls do with it.
func (w *plainWrite) withFile(name string, do func(file fd) error) error {
	file, _, err := w.openFile(name, unix.O_WRONLY)
	if err != nil {
		return err
	}
	return errors.Join(do(file), file.close())
}

// allocate makes room for size bytes, without changing what a reader sees. Any signal to the
// process may interrupt it.
func allocate(file fd, size int64) error {
	for {
		err := unix.Fallocate(int(file), unix.FALLOC_FL_KEEP_SIZE, 0, size)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// release gives back what reserve took: setting the length a file already has drops what lies
// behind it.
func (w *plainWrite) release() error {
	var errs []error
	for _, r := range w.reservations {
		errs = append(errs, w.truncate(r.file.Path, r.old.size))
	}
	return errors.Join(errs...)
}

func (w *plainWrite) truncate(name string, size int64) error {
	return w.withFile(name, func(file fd) error {
		return w.do("truncate", name, func() error { return unix.Ftruncate(int(file), size) })
	})
}

// rewriteFiles is step 9 of a write.
func (w *plainWrite) rewriteFiles() error {
	for _, r := range w.rewrites {
		if err := w.rewriteFile(r); err != nil {
			return err
		}
	}
	return nil
}

func (w *plainWrite) rewriteFile(r rewrite) error {
	return w.withFile(r.file.Path, func(file fd) error {
		return runAll(
			// Owner and mode come first, so that no other user can read the new bytes.
			func() error { return w.correctOwner(file, r) },
			func() error { return w.overwrite(file, r) },
			func() error { return w.cut(file, r) },
		)
	})
}

func (w *plainWrite) correctOwner(file fd, r rewrite) error {
	if r.right {
		return nil
	}
	if err := w.chownOpen(r.file.Path, file, ownerOfFile(r.file, w.want)); err != nil {
		return err
	}
	if err := w.markAgain(r.file.Path, file, r.file.Source); err != nil {
		return err
	}
	return w.chmodOpen(r.file.Path, file, r.file.Mode)
}

func (w *plainWrite) overwrite(file fd, r rewrite) error {
	if r.sameBytes {
		return nil
	}
	return w.do("write", r.file.Path, func() error { return file.write(r.file.Data) })
}

// cut comes after the bytes are written, so that no reader finds the file shorter than both its
// contents.
func (w *plainWrite) cut(file fd, r rewrite) error {
	size := int64(len(r.file.Data))
	if r.old.size <= size {
		return nil
	}
	return w.do("truncate", r.file.Path, func() error { return unix.Ftruncate(int(file), size) })
}
