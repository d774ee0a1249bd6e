package atomicdir_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/liveconfig-csi/liveconfig/pkg/expect"
	"github.com/liveconfig-csi/liveconfig/pkg/files/atomicdir"
	"github.com/liveconfig-csi/liveconfig/pkg/files/tree"
)

// TestRandomWalk takes volumes through random files, written by random writers that are stopped at random points, and
// checks every Write that was let through. No file ever has the source of another one.
func TestRandomWalk(t *testing.T) {
	t.Parallel()
	for range 20 {
		seed := rand.Uint64()
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			walk(t, rand.New(rand.NewPCG(seed, 0)))
		})
	}
}

func walk(t *testing.T, random *rand.Rand) {
	t.Helper()
	dir, root := newVolume(t)
	kinds := slices.Sorted(maps.Keys(writers()))
	hows := slices.Sorted(maps.Keys(stops()))
	for range 60 {
		kind := kinds[random.IntN(len(kinds))]
		w, want := writers()[kind], randomTree(t, random)
		if random.IntN(2) == 0 {
			reached := false
			stopped := stopping(w, hows[random.IntN(len(hows))], random.IntN(30), &reached)
			if err := writeStopped(stopped, root, want); err != nil {
				continue
			}
		}
		mustWrite(t, w, root, want)
		checkVolume(t, w, dir, want)
		checkSources(t, root, want)
		if t.Failed() {
			return
		}
	}
}

// randomTree uses few names, so that files and directories often meet.
func randomTree(t *testing.T, random *rand.Rand) tree.Tree {
	t.Helper()
	f := files{}
	for range random.IntN(8) {
		var elements []string
		for range 1 + random.IntN(4) {
			elements = append(elements, string(rune('a'+random.IntN(3))))
		}
		p := strings.Join(elements, "/")
		if f.clashes(p) {
			continue
		}
		f[p] = fmt.Sprintf("0%o%o%o:%s", random.IntN(8), random.IntN(8), random.IntN(8), strings.Repeat("x", random.IntN(3)*5000))
	}
	want := f.tree(t)
	for i := range want.Files {
		want.Files[i].Source = fmt.Sprintf("%d/%s", random.IntN(2), want.Files[i].Path)
	}
	want.DirMode |= []tree.Tree{{}, {DirMode: 0o20}}[random.IntN(2)].DirMode
	return want
}

// clashes reports whether p, as a file, cannot stand beside the files.
func (f files) clashes(p string) bool {
	for q := range f {
		if q == p || strings.HasPrefix(q, p+"/") || strings.HasPrefix(p, q+"/") {
			return true
		}
	}
	return false
}

// checkSources checks that no file has a source that is not its own.
func checkSources(t *testing.T, root *os.File, want tree.Tree) {
	t.Helper()
	found, err := atomicdir.Read(root, everything)
	expect.NoError(t, err)
	for _, f := range found {
		i := slices.IndexFunc(want.Files, func(of tree.File) bool { return of.Path == f.Path })
		if i < 0 || f.Source != "" && f.Source != want.Files[i].Source {
			t.Errorf("file %s has the source %q, which is not its own", f.Path, f.Source)
		}
	}
}
