package state

import (
	"errors"
	"io/fs"
	"os"
)

// replace writes data to a temporary file and renames it to path. When replace returns nil, the file
// and its name are on the disk.
func (f *Files) replace(path string, data []byte) error {
	temp, err := f.writeTemp(data)
	if err == nil {
		err = os.Rename(temp, path)
	}
	if err != nil {
		return errors.Join(err, remove(temp))
	}
	return f.syncDir()
}

// writeTemp writes data to a new file with mode 0600, and returns its name, which no ID has. The name
// is empty if there is no file.
func (f *Files) writeTemp(data []byte) (name string, err error) {
	temp, err := os.CreateTemp(f.dir, tempPrefix)
	if err != nil {
		return "", err
	}
	_, err = temp.Write(data)
	if err == nil {
		err = temp.Sync()
	}
	return temp.Name(), errors.Join(err, temp.Close())
}

// syncDir makes a rename durable.
func (f *Files) syncDir() error {
	dir, err := os.Open(f.dir)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
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

// remove removes a file, or an empty directory in its place. It is no error if there is none.
func remove(path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
