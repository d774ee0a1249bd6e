// Package readyfile is an empty file that is there while something is ready, so that a probe can
// look for it.
//
// It does not know what is ready.
package readyfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// File is the file at a path. Make it with [New].
type File struct{ path string }

// New returns a file that is not there: it removes one that an earlier process has left. It removes
// nothing but an empty file, because the path may be a mistake. It returns an error also if the
// file could not be made later.
func New(path string) (*File, error) {
	is, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, fmt.Errorf("look whether it exists: %w", err)
	case !is.Mode().IsRegular() || is.Size() > 0:
		return nil, errors.New("it is there, and not an empty file: name a file that nothing else uses")
	}
	f := &File{path: path}
	if err := f.Mark(); err != nil {
		return nil, fmt.Errorf("%w; name a file in a directory that the program may write, such as an emptyDir", err)
	}
	return f, f.Unmark()
}

// Mark makes the file.
func (f *File) Mark() error {
	const anybody = 0o644 // Probes may have another user.
	made, err := os.OpenFile(filepath.Clean(f.path), os.O_CREATE|os.O_WRONLY, anybody)
	if err != nil {
		return fmt.Errorf("make the file: %w", err)
	}
	return made.Close()
}

// Unmark removes the file.
func (f *File) Unmark() error {
	if err := os.Remove(f.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the file: %w", err)
	}
	return nil
}
