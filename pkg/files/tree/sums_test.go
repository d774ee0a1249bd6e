package tree_test

import (
	"bytes"
	"runtime"
	"slices"
	"testing"

	"github.com/liveconfig-csi/liveconfig/pkg/files/tree"
)

// large returns bytes that are worth being remembered.
func large(c byte) []byte { return bytes.Repeat([]byte{c}, 2048) }

func treeOf(t *testing.T, files ...tree.File) tree.Tree {
	t.Helper()
	made, err := tree.New(slices.Clone(files))
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func TestDigestAfterAnotherTree(t *testing.T) {
	t.Parallel()
	shared := large('s')
	trees := []tree.Tree{
		treeOf(t),
		treeOf(t, tree.File{Path: "a", Data: shared}, tree.File{Path: "b", Data: []byte("short")}, tree.File{Path: "c"}),
		treeOf(t, tree.File{Path: "a", Data: shared[:2000]}, tree.File{Path: "b", Data: shared}),
		treeOf(t, tree.File{Path: "a", Data: large('t')}, tree.File{Path: "b", Data: shared, Mode: 0o600}),
		treeOf(t, tree.File{Path: "a", Data: shared}, tree.File{Path: "b", Data: []byte("short")}, tree.File{Path: "c"}),
	}
	var sums tree.Sums
	for i, one := range trees {
		var got string
		if got, sums = one.DigestAfter(sums); got != one.Digest() {
			t.Errorf("tree %d: DigestAfter = %s, want %s", i, got, one.Digest())
		}
	}
}

func TestHaveSame(t *testing.T) {
	t.Parallel()
	file := func() tree.File { return tree.File{Path: "k/a", Data: large('a'), Mode: 0o644} }
	for name, tt := range map[string]struct {
		change func(*tree.Tree)
		want   bool
	}{
		"other memory":  {func(*tree.Tree) {}, true},
		"a longer path": {func(t *tree.Tree) { t.Files[0].Path += "b" }, false},
		"other bytes":   {func(t *tree.Tree) { t.Files[0].Data = large('b') }, false},
		"fewer bytes":   {func(t *tree.Tree) { t.Files[0].Data = t.Files[0].Data[1:] }, false},
		"another mode":  {func(t *tree.Tree) { t.Files[0].Mode = 0o600 }, false},
		"another user":  {func(t *tree.Tree) { t.UID = 1 }, false},
		"another group": {func(t *tree.Tree) { t.GID = 1 }, false},
		"the file's":    {func(t *tree.Tree) { t.Files[0].User = new(1) }, false},
		"its source":    {func(t *tree.Tree) { t.Files[0].Source = "a" }, false},
		"no file":       {func(t *tree.Tree) { t.Files = nil }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			from, to := treeOf(t, file()), treeOf(t, file())
			tt.change(&to)
			_, before := from.DigestAfter(tree.Sums{})
			_, now := to.DigestAfter(before)
			if got := now.HaveSame(before, "k/a"); got != tt.want {
				t.Errorf("HaveSame = %t, want %t", got, tt.want)
			}
		})
	}
}

// TestSumsKeepNoBytes: contents are charged as long as they are stored, so the sums must not hold them for longer.
func TestSumsKeepNoBytes(t *testing.T) {
	t.Parallel()
	collected := make(chan bool)
	sums := func() tree.Sums {
		data := large('a')
		runtime.AddCleanup(&data[0], func(c chan bool) { close(c) }, collected)
		_, sums := treeOf(t, tree.File{Path: "a", Data: data}).DigestAfter(tree.Sums{})
		return sums
	}()
	runtime.GC()
	<-collected
	runtime.KeepAlive(sums)
}

// TestBytesInTheSamePlaceAreNotReadAgain changes bytes in place, which no other code does. That the digest stays shows that they
// were not read.
func TestBytesInTheSamePlaceAreNotReadAgain(t *testing.T) {
	t.Parallel()
	data := large('a')
	one := treeOf(t, tree.File{Path: "a", Data: data})
	want, sums := one.DigestAfter(tree.Sums{})
	data[0] = 'b'
	if got, _ := one.DigestAfter(sums); got != want {
		t.Error("the bytes were read again")
	}
	if one.Digest() == want {
		t.Error("Digest does not read the bytes")
	}
}
