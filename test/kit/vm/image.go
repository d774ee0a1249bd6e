package vm

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"github.com/cavaliergopher/cpio"
)

// image writes an initramfs. It is not compressed: the guest would take longer to unpack it than to read it.
type image struct {
	archive *cpio.Writer
	dirs    map[string]bool
}

func (i *image) close() error { return i.archive.Close() }

// addTree adds a file, a link or a directory with everything below it.
func (i *image) addTree(from, to string) error {
	return filepath.WalkDir(from, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		below, err := filepath.Rel(from, name)
		if err != nil {
			return err
		}
		at := path.Join(to, filepath.ToSlash(below))
		switch {
		case entry.IsDir():
			return i.addDir(at)
		case entry.Type() == fs.ModeSymlink:
			target, err := os.Readlink(name)
			if err != nil {
				return err
			}
			return i.add(&cpio.Header{Name: at, Mode: cpio.TypeSymlink | 0o777, Size: int64(len(target))}, bytes.NewBufferString(target))
		default:
			return i.addFile(name, at)
		}
	})
}

func (i *image) addFile(from, to string) error {
	file, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	return i.add(&cpio.Header{Name: to, Mode: cpio.TypeReg | cpio.FileMode(info.Mode().Perm()), Size: info.Size()}, file)
}

func (i *image) addBytes(data []byte, to string) error {
	return i.add(&cpio.Header{Name: to, Mode: cpio.TypeReg | 0o644, Size: int64(len(data))}, bytes.NewReader(data))
}

// addDir adds a directory and those above it, each once.
func (i *image) addDir(name string) error {
	if i.dirs[name] {
		return nil
	}
	i.dirs[name] = true
	if err := i.addDir(path.Dir(name)); err != nil {
		return err
	}
	return i.archive.WriteHeader(&cpio.Header{Name: name, Mode: cpio.TypeDir | 0o755})
}

func (i *image) add(header *cpio.Header, data io.Reader) error {
	if err := i.addDir(path.Dir(header.Name)); err != nil {
		return err
	}
	if err := i.archive.WriteHeader(header); err != nil {
		return err
	}
	if _, err := io.Copy(i.archive, data); err != nil {
		return fmt.Errorf("%s: %w", header.Name, err)
	}
	return nil
}
