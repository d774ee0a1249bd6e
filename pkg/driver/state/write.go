package state

import (
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// tempTries is how many names a temporary file is tried under. That one is taken is chance.
const tempTries = 100

// replace writes data beside path and renames it there. Where there is a disk, both have reached it when replace returns.
func (f *Files) replace(path string, data []byte) error {
	temp, err := f.createTemp()
	if err != nil {
		return err
	}
	onDisk, err := temp.isOnDisk()
	err = errors.Join(err, temp.write(data))
	if err == nil && onDisk {
		err = temp.sync()
	}
	err = errors.Join(err, temp.close())
	if err == nil {
		err = rename(temp.path, path)
	}
	switch {
	case err != nil:
		return errors.Join(err, os.Remove(temp.path))
	case onDisk:
		return f.syncDir()
	}
	return nil
}

// syncDir makes a rename durable.
func (f *Files) syncDir() error {
	d, err := open(f.dir, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	return errors.Join(d.sync(), d.close())
}

// createTemp returns a new file with mode 0600 that no ID has. The path is looked up each time: the directory may be another
// one than before.
func (f *Files) createTemp() (temp file, err error) {
	for range tempTries {
		name := tempPrefix + strconv.FormatUint(rand.Uint64(), 36) //nolint:gosec // No secret.
		temp, err = open(f.dir+"/"+name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL)
		if !errors.Is(err, unix.EEXIST) {
			break
		}
	}
	return temp, err
}

// file is an open one. A record is written while its pod waits, and what package os does to find out whether a file is one
// that has to be waited for takes longer than to write it.
type file struct {
	path string
	fd   int
}

// open opens a file, with mode 0600 where it is made.
func open(path string, flags int) (file, error) {
	f := file{path: path}
	err := uninterrupted(func() (err error) {
		f.fd, err = unix.Open(path, flags|unix.O_CLOEXEC, 0o600)
		return err
	})
	return f, f.explain("open", err)
}

// isOnDisk is false for a file that is in memory, and gone with the node whatever is done to keep it.
func (f file) isOnDisk() (bool, error) {
	var system unix.Statfs_t
	err := uninterrupted(func() error { return unix.Fstatfs(f.fd, &system) })
	return system.Type != unix.TMPFS_MAGIC && system.Type != unix.RAMFS_MAGIC, f.explain("statfs", err)
}

// write writes all of the data: on a file system that is almost full, a call writes what there is room for.
func (f file) write(data []byte) error {
	for len(data) > 0 {
		var n int
		err := uninterrupted(func() (err error) {
			n, err = unix.Write(f.fd, data)
			return err
		})
		if n == 0 && err == nil {
			err = io.ErrShortWrite
		}
		if err != nil {
			return f.explain("write", err)
		}
		data = data[n:]
	}
	return nil
}

func (f file) sync() error {
	return f.explain("sync", uninterrupted(func() error { return unix.Fsync(f.fd) }))
}

// close must be called once. Linux has closed a file also when it says that a signal came between.
func (f file) close() error {
	if err := unix.Close(f.fd); !errors.Is(err, unix.EINTR) {
		return f.explain("close", err)
	}
	return nil
}

func (f file) explain(op string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: f.path, Err: err}
}

func rename(from, to string) error {
	if err := uninterrupted(func() error { return unix.Rename(from, to) }); err != nil {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
	}
	return nil
}

// remove removes a file, or an empty directory in its place. It is not an error when there is none.
func remove(path string) error {
	err := uninterrupted(func() error { return unix.Unlink(path) })
	switch {
	case errors.Is(err, unix.ENOENT), err == nil:
		return nil
	case errors.Is(err, unix.EISDIR):
		return os.Remove(path)
	}
	return &fs.PathError{Op: "remove", Path: path, Err: err}
}

// uninterrupted calls again as long as a signal has kept the call from its work, which a file system of a program can be.
func uninterrupted(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
