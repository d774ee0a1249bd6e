package tree_test

import (
	"io/fs"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"testing"

	"github.com/liveconfig-csi/liveconfig/pkg/files/tree"
)

// sample returns a tree like others of its kind, made again.
func sample(t *testing.T) tree.Tree {
	t.Helper()
	return grow(t, "a", "b/c", "b/d", "e")
}

func TestDigestChangesWithAllThatShows(t *testing.T) {
	t.Parallel()
	changes := map[string]func(*tree.Tree){
		"a byte":                    func(t *tree.Tree) { t.Files[1].Data = []byte("b/C") },
		"a byte less":               func(t *tree.Tree) { t.Files[1].Data = []byte("b/") },
		"no bytes":                  func(t *tree.Tree) { t.Files[0].Data = nil },
		"a mode":                    func(t *tree.Tree) { t.Files[0].Mode = 0o600 },
		"a mode of 0":               func(t *tree.Tree) { t.Files[0].Mode = 0 },
		"a name":                    func(t *tree.Tree) { t.Files[3].Path = "f" },
		"a directory's name":        func(t *tree.Tree) { t.Files[2].Path = "c/d" },
		"a slash":                   func(t *tree.Tree) { t.Files[2].Path = "b-d" },
		"a file less":               func(t *tree.Tree) { t.Files = t.Files[:3] },
		"an empty file more":        func(t *tree.Tree) { t.Files = append(t.Files, tree.File{Path: "f"}) },
		"no files":                  func(t *tree.Tree) { t.Files = nil },
		"the mode of directories":   func(t *tree.Tree) { t.DirMode = 0o750 },
		"the setgid bit":            func(t *tree.Tree) { t.DirMode = fs.ModeSetgid | 0o755 },
		"the user":                  func(t *tree.Tree) { t.UID = 1 },
		"the group":                 func(t *tree.Tree) { t.GID = 1 },
		"user and group":            func(t *tree.Tree) { t.UID, t.GID = 1, 1 },
		"contents change places":    func(t *tree.Tree) { t.Files[0].Data, t.Files[3].Data = t.Files[3].Data, t.Files[0].Data },
		"a byte moves to the path":  func(t *tree.Tree) { t.Files[0].Path, t.Files[0].Data = "aa", nil },
		"a byte moves to the next":  func(t *tree.Tree) { t.Files[1].Data, t.Files[2].Data = []byte("b/cb"), []byte("/d") },
		"a path moves to the bytes": func(t *tree.Tree) { t.Files[3].Path, t.Files[3].Data = "", []byte("ee") },
	}
	seen := map[string]string{sample(t).Digest(): "no change"}
	for _, name := range slices.Sorted(maps.Keys(changes)) {
		changed := sample(t)
		changes[name](&changed)
		digest := changed.Digest()
		if other, ok := seen[digest]; ok {
			t.Errorf("%s has the digest of %s", name, other)
		}
		seen[digest] = name
	}
}

func TestDigestOfEqualTrees(t *testing.T) {
	t.Parallel()
	want := sample(t).Digest()
	if !regexp.MustCompile(`^sha256:[0-9a-f]{64}$`).MatchString(want) {
		t.Errorf("Digest = %s, want sha256: and 64 digits", want)
	}
	in := files("a", "b/c", "b/d", "e")
	for range 50 {
		rand.Shuffle(len(in), func(i, j int) { in[i], in[j] = in[j], in[i] })
		made, err := tree.New(slices.Clone(in))
		if err != nil {
			t.Fatal(err)
		}
		if got := made.Digest(); got != want {
			t.Fatalf("Digest of files given as %v = %s, want %s", in, got, want)
		}
	}
}

func TestDigestTakesNoDataForEmpty(t *testing.T) {
	t.Parallel()
	none := tree.Tree{Files: []tree.File{{Path: "a"}}}
	empty := tree.Tree{Files: []tree.File{{Path: "a", Data: []byte{}}}}
	if got, want := none.Digest(), empty.Digest(); got != want {
		t.Errorf("Digest without data = %s, want that of empty data %s", got, want)
	}
}
