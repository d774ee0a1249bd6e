package atomicdir_test

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/liveconfig-csi/liveconfig/pkg/expect"
	"github.com/liveconfig-csi/liveconfig/pkg/files/atomicdir"
	"github.com/liveconfig-csi/liveconfig/pkg/files/tree"
)

// longPath returns a path of exactly n bytes whose elements have 255 bytes, the last one or two less.
func longPath(n int) string {
	var p strings.Builder
	for p.Len() < n {
		left := n - p.Len()
		element := min(255, left)
		if left == 256 {
			element = 254 // Else a slash would be the last byte.
		}
		p.WriteString(strings.Repeat("x", element))
		if p.Len() < n {
			p.WriteByte('/')
		}
	}
	return p.String()
}

// TestPathsAsLongAsTheyMayBe is rule 24 on disk: no directory in front counts, because a volume is written through its
// root. A longer element fails, and nothing is left of it. This is fault 7.
func TestPathsAsLongAsTheyMayBe(t *testing.T) {
	t.Parallel()
	for kind, w := range writers() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			dir, root := newVolume(t)
			long := longPath(4096)
			if len(long) != 4096 || path.Clean(long) != long {
				t.Fatalf("the path has %d bytes, want 4096, and a clean one", len(long))
			}
			want := files{long: "deep", strings.Repeat("é", 127): "wide"}.tree(t)
			mustWrite(t, w, root, files{"a": "1"}.tree(t))
			mustWrite(t, w, root, want)
			if got, err := readDeep(t, dir, long); string(got) != "deep" {
				t.Errorf("the deepest file holds %q, %v, want deep", got, err)
			}
			if mustWrite(t, w, root, want) { // Its stamps cannot be taken: a path is too long.
				t.Error("Write of the same files = changed, want unchanged")
			}
			wide := filepath.Join(dir, strings.Repeat("é", 127))
			for _, p := range []string{strings.Repeat("x", 256), "d/" + strings.Repeat("é", 128)} {
				before := stamps(t, wide)
				if _, err := w.Write(root, files{p: "too long", "b": "new"}.tree(t)); err == nil {
					t.Errorf("Write of an element of %d bytes = nil, want an error", len(path.Base(p)))
				}
				checkUntouched(t, wide, before)
				if got, err := readDeep(t, dir, long); string(got) != "deep" {
					t.Errorf("after a failed Write the deepest file holds %q, %v, want deep", got, err)
				}
			}
			mustWrite(t, w, root, files{"a": "1"}.tree(t))
			checkVolume(t, w, dir, files{"a": "1"}.tree(t))
		})
	}
}

// TestNothingIsShownBeforeItIsReady is rule 33: at the change that makes a file visible, it has its bytes, its mode and
// its owner, and so have the directories above it. This is fault 6.
func TestNothingIsShownBeforeItIsReady(t *testing.T) {
	t.Parallel()
	gid := 2000
	if !knows(t, "/proc/self/gid_map", gid) {
		gid = 0 // Modes alone are enough to see the order.
	}
	for _, w := range []atomicdir.Writer{atomicdir.Atomic{}, atomicdir.Replace{}} {
		t.Run(fmt.Sprintf("%T", w), func(t *testing.T) {
			t.Parallel()
			dir, root := newVolume(t)
			mustWrite(t, w, root, files{"a": "0600:0", "z": "0600:0"}.tree(t))
			want := owned(t, 0, gid)
			shown := 0
			watching := atomicdir.WithHook(w, func(op, name string) error {
				if op == "rename" && !strings.HasPrefix(name, "..tmp-") {
					shown++
					checkReady(t, dir, name, want)
				}
				return nil
			})
			mustWrite(t, watching, root, want)
			if shown < 2 {
				t.Errorf("%d changes make something visible, want at least 2", shown)
			}
			checkVolume(t, w, dir, want)
		})
	}
}

// checkReady looks at what a rename to the name is about to show: for ..data the generation that ..data_tmp leads to,
// else whatever waits under a temporary name.
func checkReady(t *testing.T, dir, name string, want tree.Tree) {
	t.Helper()
	all := wantView(want)
	if name == "..data" {
		next, err := os.Readlink(filepath.Join(dir, "..data_tmp"))
		expect.NoError(t, err)
		if diff := cmp.Diff(all, see(t, filepath.Join(dir, next))); diff != "" {
			t.Errorf("what ..data is about to show (-want +got):\n%s", diff)
		}
		return
	}
	temps, err := filepath.Glob(filepath.Join(dir, "..tmp-*"))
	if err != nil || len(temps) == 0 {
		t.Fatalf("what waits to be shown: %v, %v, want something", temps, err)
	}
	waiting := view{}
	for _, temp := range temps {
		if info, err := os.Lstat(temp); err == nil && info.Mode()&os.ModeSymlink == 0 {
			waiting.walk(t, dir, filepath.Base(temp))
		}
	}
	states := map[string]bool{}
	for _, state := range all {
		states[state] = true
	}
	for p, state := range waiting {
		if !states[state] {
			t.Errorf("%s waits to be shown as %q, which is nothing that is wanted: %v", p, state, all)
		}
	}
}
