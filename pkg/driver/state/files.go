package state

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
)

const (
	fileSuffix = ".json"
	tempPrefix = "tmp-"
)

// Files stores a small file for each ID in one directory, complete or not at all. Only the owner of
// the process can read the files. The methods may be called concurrently for different IDs.
type Files struct {
	dir   string
	temps atomic.Uint64 // How many temporary files there were.
}

// NewFiles returns the files in dir, which it creates with mode 0700 if it is missing. It removes
// the temporary files of a Put that crashed, so no other process may write to dir meanwhile. If one
// cannot be removed, that is an error only if nothing can be written either: nobody reads temporary
// files.
func NewFiles(dir string) (*Files, error) {
	f := &Files{dir: filepath.Clean(dir)}
	if err := f.makeDir(); err != nil {
		return nil, fmt.Errorf("create the state directory: %w", err)
	}
	err := f.removeTemps()
	if err == nil {
		return f, nil
	}
	if problem := f.check(); problem != nil {
		return nil, fmt.Errorf("clear the state directory: %w", errors.Join(err, problem))
	}
	return f, nil
}

func (f *Files) makeDir() error { return os.MkdirAll(f.dir, 0o700) }

func (f *Files) removeTemps() error {
	entries, err := os.ReadDir(f.dir)
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), tempPrefix) {
			err = errors.Join(err, os.RemoveAll(filepath.Join(f.dir, entry.Name())))
		}
	}
	return err
}

// Put writes the file of an ID, replacing an earlier one in one step. A directory that somebody has
// removed is made again.
func (f *Files) Put(id string, data []byte) error {
	err := f.replace(f.path(id), data)
	if errors.Is(err, fs.ErrNotExist) && f.makeDir() == nil {
		err = f.replace(f.path(id), data)
	}
	return err
}

// Delete removes the file of an ID. A missing file is not an error.
func (f *Files) Delete(id string) error { return remove(f.path(id)) }

// List returns the content of every file that can be read, and an error for those that cannot.
func (f *Files) List() ([][]byte, error) {
	var contents [][]byte
	var problems []error
	err := f.each(func(name string, data []byte, err error) {
		if err != nil {
			problems = append(problems, fmt.Errorf("read %s: %w", name, err))
			return
		}
		contents = append(contents, data)
	})
	return contents, errors.Join(append(problems, err)...)
}

// Has reports whether an ID has a file.
func (f *Files) Has(id string) bool {
	info, err := os.Lstat(f.path(id))
	return err == nil && info.Mode().IsRegular()
}

// each calls visit with every file, or with why it cannot be read.
func (f *Files) each(visit func(name string, data []byte, err error)) error {
	entries, err := os.ReadDir(f.dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), tempPrefix) {
			continue // A Put is under way.
		}
		data, err := f.read(entry)
		if errors.Is(err, fs.ErrNotExist) {
			continue // Deleted since.
		}
		visit(entry.Name(), data, err)
	}
	return nil
}

func (f *Files) read(entry fs.DirEntry) ([]byte, error) {
	if !entry.Type().IsRegular() { // To open a pipe would wait for its writer.
		return nil, fmt.Errorf("it is not a regular file (%s)", entry.Type())
	}
	return os.ReadFile(filepath.Join(f.dir, entry.Name()))
}

func (f *Files) path(id string) string { return f.dir + "/" + nameOf(id) }

// nameOf never contains a byte of the ID, which may hold anything.
func nameOf(id string) string {
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:]) + fileSuffix
}
