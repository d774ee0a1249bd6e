package preview

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	slashpath "path"
	"slices"
	"strconv"

	"github.com/liveconfig-csi/liveconfig/pkg/cli/printing"
	"github.com/liveconfig-csi/liveconfig/pkg/files/tree"
)

const (
	// hidden stands for what is not shown. With the digest of a short Secret its value could be
	// guessed.
	hidden = "hidden"
	// shortDigest is how many digits are enough for people to compare.
	shortDigest = 16
)

// Print lists the files of volumes, and nothing of their values.
func Print(w io.Writer, pod Pod, volumes []Volume) error {
	for _, v := range volumes {
		if v.Err != nil {
			continue // The error is printed elsewhere.
		}
		digest := v.Tree.Digest()
		if v.HidesAny() {
			digest = hidden
		}
		if _, err := fmt.Fprintf(w, "%s: volume %s (%s), %s, %s, %s\n",
			pod.Object(), v.Name, v.Type, printing.Counted(len(v.Tree.Files), "file"), printing.Counted(v.Tree.Size(), "byte"), digest); err != nil {
			return err
		}
		if err := v.table(w); err != nil {
			return err
		}
	}
	return nil
}

func (v Volume) table(w io.Writer) error {
	rows := [][]string{{"  MODE", "OWNER", "SIZE", "SHA256", "PATH"}, {"  " + modeText(v.RootMode|fs.ModeDir), owner(v.Tree), "-", "-", "."}}
	for _, e := range v.entries() {
		mode, size, digest, path := e.file.Mode, fmt.Sprint(len(e.file.Data)), "-", e.file.Path
		if e.isDir {
			mode, size, path = v.Tree.DirMode|fs.ModeDir, "-", path+"/"
		} else {
			digest = v.digest(e.file)
		}
		rows = append(rows, []string{"  " + modeText(mode), ownerOf(e.file, v.Tree), size, digest, shown(path)})
	}
	return printing.Table(w, 2, rows)
}

type entry struct {
	file  tree.File
	isDir bool
}

// entries returns directories, each before what is in it, and files.
func (v Volume) entries() []entry {
	var all []entry
	seen := map[string]bool{}
	for _, f := range v.Tree.Files {
		for _, dir := range (tree.Tree{Files: []tree.File{f}}).Dirs() {
			if !seen[dir] {
				seen[dir] = true
				all = append(all, entry{file: tree.File{Path: dir}, isDir: true})
			}
		}
		all = append(all, entry{file: f})
	}
	return all
}

func (v Volume) digest(f tree.File) string {
	if v.Hidden[f.Path] {
		return hidden
	}
	sum := sha256.Sum256(f.Data)
	return hex.EncodeToString(sum[:])[:shortDigest]
}

// shown is a path as a terminal can have it. An item may name anything.
func shown(path string) string {
	if quoted := strconv.Quote(path); len(quoted) != len(path)+len(`""`) {
		return quoted
	}
	return path
}

// modeText writes a mode as ls does. Directories of volumes are open to their groups, and those
// with the sticky bit to all.
func modeText(mode fs.FileMode) string {
	const groupExecutes, othersExecute = 6, 9
	text := []byte((mode & fs.ModePerm).String())
	for _, bit := range []struct {
		is     fs.FileMode
		at     int
		letter byte
	}{{fs.ModeDir, 0, 'd'}, {fs.ModeSetgid, groupExecutes, 's'}, {fs.ModeSticky, othersExecute, 't'}} {
		if mode&bit.is != 0 {
			text[bit.at] = bit.letter
		}
	}
	return string(text)
}

// Folder is where volumes are written. Nothing is ever written outside of it, or over what is
// there.
type Folder struct {
	root *os.Root
	// Owns gives files the owners that they have in the volume, which takes root.
	Owns bool
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

// Write writes a volume to a path of the folder. Hidden files are for their owner alone, whatever
// their modes in the volume.
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
	if v.Hidden[file.Path] {
		mode &^= othersRead
	}
	t := v.Tree
	t.UID = t.UserOf(file)
	return f.settle(at, file.Path, t, mode)
}

func (f *Folder) settle(at *os.Root, path string, t tree.Tree, mode fs.FileMode) error {
	if f.Owns {
		if err := at.Lchown(path, t.UID, t.GID); err != nil {
			return err
		}
	}
	return at.Chmod(path, mode)
}
