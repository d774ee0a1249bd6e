package filelist

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"strconv"

	"github.com/liveconfig-csi/liveconfig/pkg/cli/printing"
	"github.com/liveconfig-csi/liveconfig/pkg/files/tree"
)

// Visibility is how much of Secrets is shown.
type Visibility string

// The sights.
const (
	// Masked shows that there are files, and how large they are.
	Masked Visibility = "masked"
	// Shown shows everything.
	Shown Visibility = "shown"
)

const (
	// hidden stands for what is not shown. With the digest of a short Secret its value could be
	// guessed.
	hidden = "hidden"
	// shortDigest is how many digits are enough for people to compare.
	shortDigest = 16
)

// Print lists the files of volumes, and nothing of their values.
func Print(w io.Writer, pod Pod, volumes []Volume, visibility Visibility) error {
	for _, v := range volumes {
		if v.Err != nil {
			continue // The error is printed elsewhere.
		}
		digest := v.Tree.Digest()
		if v.HoldsSecrets() && visibility != Shown {
			digest = hidden
		}
		if _, err := fmt.Fprintf(w, "%s: volume %s (%s), %s, %s, %s\n",
			pod.Object(), v.Name, v.Type, counted(len(v.Tree.Files), "file"), counted(v.Tree.Size(), "byte"), digest); err != nil {
			return err
		}
		if err := v.table(w, visibility); err != nil {
			return err
		}
	}
	return nil
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// table lists the files of one volume.
func (v Volume) table(w io.Writer, visibility Visibility) error {
	rows := [][]string{{"  MODE", "OWNER", "SIZE", "SHA256", "PATH"}, {"  " + modeText(v.RootMode|fs.ModeDir), owner(v.Tree), "-", "-", "."}}
	for _, e := range v.entries() {
		mode, size, digest, path := e.file.Mode, fmt.Sprint(len(e.file.Data)), "-", e.file.Path
		if e.isDir {
			mode, size, path = v.Tree.DirMode|fs.ModeDir, "-", path+"/"
		} else {
			digest = v.digest(e.file, visibility)
		}
		rows = append(rows, []string{"  " + modeText(mode), ownerOf(e.file, v.Tree), size, digest, shown(path)})
	}
	return printing.Table(w, 2, rows)
}

// entry is a file, or a directory, which has only a path.
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

func (v Volume) digest(f tree.File, visibility Visibility) string {
	if v.Secret[f.Path] && visibility != Shown {
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
