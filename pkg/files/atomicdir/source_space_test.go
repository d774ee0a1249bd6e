package atomicdir_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/liveconfig-csi/liveconfig/pkg/files/tree"
)

// TestOutOfSpaceForSources is TestOutOfSpace for files with long sources, which the kernel counts as inodes: the files of an
// update that fails are all as they were.
func TestOutOfSpaceForSources(t *testing.T) {
	t.Parallel()
	withSources := func(of string, f files) tree.Tree { return from(strings.Repeat(of, 800), f.tree(t)) }
	updates := tightUpdates()
	updates["the same bytes come from elsewhere"] = change{files{"a": "1", "b": "1", "k/c": "1"}, files{"a": "1", "b": "1", "k/c": "1"}}
	for kind, w := range writers() {
		for name, u := range updates {
			t.Run(kind+"/"+name, func(t *testing.T) {
				t.Parallel()
				old, wanted := withSources("a", u.from), withSources("b", u.to)
				failed, limit := 0, 1
				for done := false; !done && limit < 200 && !t.Failed(); limit++ {
					dir, root := newTmpfs(t, fmt.Sprintf("size=1000k,nr_inodes=%d", limit))
					if _, err := w.Write(root, old); err != nil {
						checkNoSpace(t, err)
						failed++
						continue
					}
					before := free(t, dir)
					_, err := w.Write(root, wanted)
					if done = err == nil; done {
						checkVolume(t, w, dir, wanted)
						continue
					}
					checkNoSpace(t, err)
					checkVolume(t, w, dir, old)
					if left := free(t, dir); left != before {
						t.Errorf("a failed Write leaves %v pages and inodes, want %v", left, before)
					}
				}
				if failed == 0 || limit == 200 {
					t.Errorf("%d limits up to %d were too small, want some and not all", failed, limit)
				}
			})
		}
	}
}
