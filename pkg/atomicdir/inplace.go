package atomicdir

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"github.com/liveconfig-csi/liveconfig/pkg/tree"
)

// rewrite is a file that changes in its inode.
type rewrite struct {
	file tree.File
	// info is what the file was.
	info fs.FileInfo
	// sameBytes and right (mode and owner) say what need not change.
	sameBytes, right bool
}

func (r rewrite) grows() bool { return int64(len(r.file.Data)) > r.info.Size() }

// reserve is step 5 of a write: once a file's first byte has changed, the last one must not fail for want of space.
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
	file, err := w.root.OpenFile(r.file.Path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	return w.do("reserve", r.file.Path, func() error {
		err := allocate(file, int64(len(r.file.Data)))
		// Some file systems cannot; a tmpfs can.
		if errors.Is(err, unix.EOPNOTSUPP) {
			return nil
		}
		if err != nil {
			return &fs.PathError{Op: "fallocate", Path: r.file.Path, Err: err}
		}
		return nil
	})
}

// allocate makes room for size bytes, without changing what a reader sees. Any signal to the process may interrupt it.
func allocate(file *os.File, size int64) error {
	for {
		err := unix.Fallocate(int(file.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, size)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// release gives back what reserve took: setting the length a file already has drops what lies behind it.
func (w *plainWrite) release() error {
	var errs []error
	for _, r := range w.reservations {
		errs = append(errs, w.truncate(r.file.Path, r.info.Size()))
	}
	return errors.Join(errs...)
}

func (w *plainWrite) truncate(name string, size int64) (err error) {
	file, err := w.root.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return w.do("truncate", name, func() error { return file.Truncate(size) })
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

func (w *plainWrite) rewriteFile(r rewrite) (err error) {
	file, err := w.root.OpenFile(r.file.Path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return runAll(
		// Owner and mode come first: new bytes are never there for whoever must not see them.
		func() error { return w.correctOwner(file, r) },
		func() error { return w.overwrite(file, r) },
		func() error { return w.cut(file, r) },
	)
}

func (w *plainWrite) correctOwner(file *os.File, r rewrite) error {
	if r.right {
		return nil
	}
	o := ownerOf(w.want)
	return runAll(
		func() error { return w.do("chown", r.file.Path, func() error { return file.Chown(o.uid, o.gid) }) },
		func() error { return w.do("chmod", r.file.Path, func() error { return file.Chmod(r.file.Mode) }) },
	)
}

func (w *plainWrite) overwrite(file *os.File, r rewrite) error {
	if r.sameBytes {
		return nil
	}
	return w.do("write", r.file.Path, func() error { _, err := file.WriteAt(r.file.Data, 0); return err })
}

// cut comes after the bytes are written, so that no reader finds the file shorter than both its contents.
func (w *plainWrite) cut(file *os.File, r rewrite) error {
	size := int64(len(r.file.Data))
	if r.info.Size() <= size {
		return nil
	}
	return w.do("truncate", r.file.Path, func() error { return file.Truncate(size) })
}
