package volume

import (
	"bytes"
	"fmt"
	"hash/fnv"
	"io/fs"
	"maps"
	"path"
	"slices"

	"github.com/liveconfig-csi/liveconfig/pkg/files/tree"
)

// owners names the readers and the owners of the versions. It goes from the test to its readers.
type owners struct {
	// Reader is the user and group that the readers run as.
	Reader int
	// Alternates makes root own every second version; the readers are then in the group only, as with an fsGroup.
	Alternates bool
}

// epoch is how many versions in a row have the same owner and leave the slow file alone.
const epoch = 4

// slowFile is a file that most versions do not change.
const slowFile = "slow"

// uid returns the owner of version n.
func (o owners) uid(n int) int {
	if o.Alternates && n/epoch%2 == 1 {
		return 0
	}
	return o.Reader
}

// dirMode is that of every directory of every version.
func (o owners) dirMode() fs.FileMode { return fs.ModeSetgid | 0o755 }

// version returns the tree of version n. Names, sizes, modes and owners change with n; a name is a file in some versions
// and a directory in others.
func (o owners) version(n int) (tree.Tree, error) {
	paths := []string{"always", "big", "d/always", "d/e/f/deep", slowFile, fmt.Sprintf("only-%d", n%5)}
	if n%2 == 1 {
		paths = append(paths, "odd", "d/odd")
	}
	if n%3 == 0 {
		paths = append(paths, "third/x", "third/y")
	}
	switch n % 4 {
	case 0:
		paths = append(paths, "flip", "d/flop/one")
	case 1:
		paths = append(paths, "flip/one", "flip/two/deep", "d/flop")
	case 2:
		paths = append(paths, "flip/two", "d/flop/two/deep")
	}
	files := make([]tree.File, 0, len(paths))
	for _, p := range paths {
		files = append(files, o.file(p, n))
	}
	t, err := tree.New(files)
	t.DirMode, t.UID, t.GID = o.dirMode(), o.uid(n), o.Reader
	return t, err
}

// file returns a file of version n.
func (o owners) file(p string, n int) tree.File {
	n = versionOf(p, n)
	h := fnv.New32()
	fmt.Fprintf(h, "%s %d", p, n)
	random := int(h.Sum32())
	// All of these can be read by the owner, or by the group as well.
	modes := []fs.FileMode{0o400, 0o600, 0o644, 0o500, 0o755, 0o777, 0o444, 0o604}
	mode := modes[random%len(modes)]
	if o.uid(n) != o.Reader {
		mode |= 0o440
	}
	size := random / 8 % 500
	if path.Base(p) == "big" {
		size = random / 8 % 20000
	}
	data := fmt.Appendf(nil, "%d %s ", n, p)
	return tree.File{Path: p, Data: append(data, bytes.Repeat([]byte{byte('a' + n%26)}, size)...), Mode: mode}
}

// versionOf returns the version that wrote what the file holds in version n.
func versionOf(p string, n int) int {
	if p == slowFile {
		return n - n%epoch
	}
	return n
}

// expectation is a version in the form that readers compare with.
type expectation struct {
	files map[string]tree.File
	dirs  []string
	uid   int
}

// expectations computes versions once. It keeps the newest few.
type expectations struct {
	owners owners
	known  map[int]expectation
}

func (e *expectations) of(n int) (expectation, error) {
	if x, ok := e.known[n]; ok {
		return x, nil
	}
	t, err := e.owners.version(n)
	if err != nil {
		return expectation{}, err
	}
	x := expectation{files: make(map[string]tree.File, len(t.Files)), dirs: t.Dirs(), uid: t.UID}
	for _, f := range t.Files {
		x.files[f.Path] = f
	}
	if len(e.known) > 2*epoch {
		delete(e.known, slices.Min(slices.Collect(maps.Keys(e.known))))
	}
	e.known[n] = x
	return x, nil
}
