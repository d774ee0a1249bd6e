package preview

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	slashpath "path"
	"slices"
	"strconv"
	"strings"

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

// List lists the files of volumes, and nothing of their values.
func List(pod Pod, volumes []Volume) string {
	var b strings.Builder
	for _, v := range volumes {
		if v.Err != nil {
			continue // The error is printed elsewhere.
		}
		digest := v.Tree.Digest()
		if v.hides(func(tree.File) bool { return true }) {
			digest = hidden
		}
		fmt.Fprintf(&b, "%s: volume %s (%s), %s, %s, %s\n",
			pod.Object(), v.Name, v.Type, printing.Counted(len(v.Tree.Files), "file"), printing.Counted(v.Tree.Size(), "byte"),
			digest)
		_ = printing.Table(&b, 2, v.rows()) // A builder takes everything.
	}
	return b.String()
}

func (v Volume) rows() [][]string {
	rows := [][]string{{"  MODE", "OWNER", "SIZE", "SHA256", "PATH"}}
	for _, f := range v.entries() {
		size, digest := "-", "-"
		if !f.Mode.IsDir() {
			size, digest = fmt.Sprint(len(f.Data)), v.digest(f)
		}
		rows = append(rows, []string{"  " + modeText(f.Mode), ownerOf(f, v.Tree), size, digest, shown(f.Path)})
	}
	return rows
}

// entries returns the volume itself, directories, each before what is in it, and files.
func (v Volume) entries() []tree.File {
	all := slices.Clone(v.Tree.Files)
	for _, dir := range v.Tree.Dirs() {
		all = append(all, tree.File{Path: dir + "/", Mode: v.Tree.ModeOfDir(dir) | fs.ModeDir})
	}
	slices.SortFunc(all, func(a, b tree.File) int { return strings.Compare(a.Path, b.Path) })
	return slices.Insert(all, 0, tree.File{Path: ".", Mode: v.RootMode | fs.ModeDir})
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
// their modes in the volume. Nobody else can read anything before it has its mode.
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
	entries := v.entries()
	for _, file := range entries[1:] {
		if err := add(at, file); err != nil {
			return err
		}
	}
	entries[0].Mode &^= othersWrite
	for _, file := range slices.Backward(entries) {
		if v.Hidden[file.Path] {
			file.Mode &^= othersRead
		}
		if f.Owns {
			err = at.Lchown(slashpath.Clean(file.Path), v.Tree.UserOf(file), v.Tree.GID)
		}
		if err == nil {
			err = at.Chmod(slashpath.Clean(file.Path), file.Mode)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func add(at *os.Root, file tree.File) error {
	if file.Mode.IsDir() {
		return at.Mkdir(slashpath.Clean(file.Path), privateDir)
	}
	opened, err := at.OpenFile(file.Path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, privateFile)
	if err != nil {
		return err
	}
	_, err = opened.Write(file.Data)
	return errors.Join(err, opened.Close())
}
