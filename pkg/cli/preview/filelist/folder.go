package filelist

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	slashpath "path"
	"slices"

	"github.com/liveconfig-csi/liveconfig/pkg/files/tree"
)

// Folder is where volumes are written. Nothing is ever written outside of it, or over what is
// there.
type Folder struct {
	root *os.Root
	// Owns gives files the owners that they have in the volume, which takes root.
	Owns bool
	// Visibility is about Secrets: unless they are shown, their files are for their owner alone,
	// whatever their modes in the volume.
	Visibility Visibility
}

// The modes of what is not complete yet.
const (
	privateDir  fs.FileMode = 0o700
	privateFile fs.FileMode = 0o600
	// othersWrite is what no folder of ours lets others do. In a pod that is up to the mount, which
	// is read-only.
	othersWrite fs.FileMode = 0o022
	// othersRead is what no file of a Secret lets others do, unless it is asked for.
	othersRead fs.FileMode = 0o077
)

// NewFolder opens a folder, which is made if it does not exist, and must be empty.
func NewFolder(dir string) (*Folder, error) {
	err := os.Mkdir(dir, privateDir)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	found, err := fs.ReadDir(root.FS(), ".")
	if err == nil && len(found) > 0 {
		err = fmt.Errorf("%s is not empty, it has %s: name an empty folder, or one that does not exist", dir, found[0].Name())
	}
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return &Folder{root: root}, nil
}

// Close ends the work with the folder.
func (f *Folder) Close() error { return f.root.Close() }

// Write writes a volume to a path of the folder.
func (f *Folder) Write(path string, v Volume) (err error) {
	if err := f.root.MkdirAll(slashpath.Dir(path), privateDir); err != nil {
		return err
	}
	if err := f.root.Mkdir(path, privateDir); err != nil {
		return err
	}
	at, err := f.root.OpenRoot(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, at.Close()) }()
	dirs := v.Tree.Dirs()
	for _, dir := range dirs {
		if err := at.Mkdir(dir, privateDir); err != nil {
			return err
		}
	}
	for _, file := range v.Tree.Files {
		if err := f.file(at, v, file); err != nil {
			return err
		}
	}
	for _, dir := range slices.Backward(dirs) {
		if err := f.settle(at, dir, v.Tree, v.Tree.DirMode); err != nil {
			return err
		}
	}
	return f.settle(at, ".", v.Tree, v.RootMode&^othersWrite)
}

// file writes a file. Nobody else can read it before it has its mode.
func (f *Folder) file(at *os.Root, v Volume, file tree.File) error {
	opened, err := at.OpenFile(file.Path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, privateFile)
	if err != nil {
		return err
	}
	_, err = opened.Write(file.Data)
	if err := errors.Join(err, opened.Close()); err != nil {
		return err
	}
	mode := file.Mode
	if v.Secret[file.Path] && f.Visibility != Shown {
		mode &^= othersRead
	}
	t := v.Tree
	t.UID = t.UserOf(file)
	return f.settle(at, file.Path, t, mode)
}

// settle gives what was written its owner and mode.
func (f *Folder) settle(at *os.Root, path string, t tree.Tree, mode fs.FileMode) error {
	if f.Owns {
		if err := at.Lchown(path, t.UID, t.GID); err != nil {
			return err
		}
	}
	return at.Chmod(path, mode)
}
