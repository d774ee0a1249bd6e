package state

import (
	"errors"
	"io"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// replace writes data to a temporary file and renames it to path. When replace returns nil, the
// file and its name are on the disk.
func (f *Files) replace(path string, data []byte) error {
	temp, err := f.writeTemp(data)
	if err == nil {
		err = pathError("rename", temp, unix.Rename(temp, path))
	}
	if err != nil {
		return errors.Join(err, remove(temp))
	}
	return f.syncDir()
}

// writeTemp writes data to a new file with mode 0600, and returns its name, which no ID has. The
// name is empty if there is no file. Package os would take ten calls more for each publish, because
// it offers every file to its poller.
func (f *Files) writeTemp(data []byte) (name string, err error) {
	name = filepath.Join(f.dir, tempPrefix+strconv.FormatUint(f.temps.Add(1), 10))
	fd, err := open(name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL)
	if err != nil {
		return "", err
	}
	n, err := unix.Write(fd, data)
	if err == nil && n < len(data) {
		err = io.ErrShortWrite
	}
	if err == nil {
		err = unix.Fsync(fd)
	}
	return name, pathError("write", name, errors.Join(err, unix.Close(fd)))
}

// syncDir makes a rename durable.
func (f *Files) syncDir() error {
	fd, err := open(f.dir, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	return pathError("sync", f.dir, errors.Join(unix.Fsync(fd), unix.Close(fd)))
}

func open(path string, flags int) (fd int, err error) {
	err = uninterrupted(func() (err error) {
		fd, err = unix.Open(path, flags|unix.O_CLOEXEC, 0o600)
		return err
	})
	return fd, pathError("open", path, err)
}

// check writes a file that nobody reads and removes it. The file is not empty: a full file system
// still creates empty files.
func (f *Files) check() error {
	if err := f.makeDir(); err != nil {
		return err
	}
	temp, err := f.writeTemp([]byte("\n"))
	return errors.Join(err, remove(temp))
}

// remove removes a file, or an empty directory in its place. A missing one is not an error.
func remove(path string) error {
	err := unix.Unlink(path)
	if errors.Is(err, unix.EISDIR) {
		err = unix.Rmdir(path)
	}
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	return pathError("remove", path, err)
}
