package atomicdir_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/liveconfig-csi/liveconfig/pkg/expect"
	"github.com/liveconfig-csi/liveconfig/pkg/files/atomicdir"
)

// keptFiles returns the sizes of the inodes that wait.
func keptFiles(t *testing.T, dir string) (sizes []int64) {
	t.Helper()
	list, err := os.ReadDir(dir)
	expect.NoError(t, err)
	for _, e := range list {
		if strings.HasPrefix(e.Name(), "..kept-") {
			info, err := e.Info()
			expect.NoError(t, err)
			sizes = append(sizes, info.Size())
		}
	}
	return sizes
}

// TestAFileThatComesBack has its inode, so that a container which mounts it by subPath sees it; meanwhile the mount is empty.
func TestAFileThatComesBack(t *testing.T) {
	t.Parallel()
	for name, path := range map[string]string{"in the root": "a", "in a directory that goes": "d/e/a", "in one that stays": "s/a"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, root := newVolume(t)
			w := atomicdir.InPlace{}
			mustWrite(t, w, root, files{path: "first", "s/other": "1"}.tree(t))
			mounted := bind(t, filepath.Join(dir, path))
			for _, content := range []string{"0400:second", "0644:third, and longer than before"} {
				without := files{"s/other": content}.tree(t)
				mustWrite(t, w, root, without)
				checkVolume(t, w, dir, without)
				checkMounted(t, mounted, "")
				with := files{path: content, "s/other": content}.tree(t)
				mustWrite(t, w, root, with)
				checkVolume(t, w, dir, with)
				_, want, _ := strings.Cut(content, ":")
				checkMounted(t, mounted, want)
				checkUnchanged(t, w, dir, root, with)
				if kept := keptFiles(t, dir); len(kept) > 0 {
					t.Errorf("%d inodes wait, want none", len(kept))
				}
			}
		})
	}
}

// TestAFileThatCameBackInAWriteThatWasKilled and goes again: the inode has both names.
func TestAFileThatCameBackInAWriteThatWasKilled(t *testing.T) {
	t.Parallel()
	for name, next := range map[string]files{"for a directory": {"a/b": "3"}, "for nothing": {"other": "3"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, root := newVolume(t)
			w := atomicdir.InPlace{}
			mustWrite(t, w, root, files{"a": "1"}.tree(t))
			mustWrite(t, w, root, files{"other": "1"}.tree(t))
			names, err := filepath.Glob(filepath.Join(dir, "..kept-*"))
			if err != nil || len(names) != 1 {
				t.Fatalf("inodes that wait: %q, %v, want one", names, err)
			}
			expect.NoError(t, os.Link(names[0], filepath.Join(dir, "a")))
			want := next.tree(t)
			mustWrite(t, w, root, want)
			checkVolume(t, w, dir, want)
		})
	}
}

// TestAFileThatComesBackAfterADirectory took its place.
func TestAFileThatComesBackAfterADirectory(t *testing.T) {
	t.Parallel()
	dir, root := newVolume(t)
	w := atomicdir.InPlace{}
	mustWrite(t, w, root, files{"a": "1"}.tree(t))
	mounted := bind(t, filepath.Join(dir, "a"))
	mustWrite(t, w, root, files{"a/b": "2"}.tree(t))
	below := bind(t, filepath.Join(dir, "a/b"))
	checkMounted(t, mounted, "")
	mustWrite(t, w, root, files{"a": "3"}.tree(t))
	checkMounted(t, mounted, "3")
	checkMounted(t, below, "")
	mustWrite(t, w, root, files{"a/b": "4"}.tree(t))
	checkMounted(t, below, "4")
	checkMounted(t, mounted, "")
}

// TestKeptInodesAreBounded and the oldest go first.
func TestKeptInodesAreBounded(t *testing.T) {
	t.Parallel()
	dir, root := newVolume(t)
	w := atomicdir.InPlace{}
	for round := range 3 {
		many := files{}
		for i := range atomicdir.MaxKept {
			many[fmt.Sprintf("f%d-%d", round, i)] = "x"
		}
		mustWrite(t, w, root, many.tree(t))
	}
	mustWrite(t, w, root, files{"a": "1"}.tree(t))
	kept := keptFiles(t, dir)
	if len(kept) != atomicdir.MaxKept {
		t.Errorf("%d inodes wait, want %d", len(kept), atomicdir.MaxKept)
	}
	mustWrite(t, atomicdir.Replace{}, root, files{"a": "1"}.tree(t))
	if kept := keptFiles(t, dir); len(kept) > 0 {
		t.Errorf("%d inodes wait after another writer, want none", len(kept))
	}
}

// TestStopAnywhereWhileFilesGoAndComeBack: whatever is killed or fails, the next writes empty what waits, and bring back the
// inode.
func TestStopAnywhereWhileFilesGoAndComeBack(t *testing.T) {
	t.Parallel()
	steps := map[string][2]files{
		"a file goes":       {{"a": "1", "d/a": "1"}, {"b": "1"}},
		"a file comes back": {{"b": "1"}, {"a": "2", "d/a": "2", "b": "1"}},
	}
	for what, step := range steps {
		for how := range stops() {
			t.Run(what+"/"+how, func(t *testing.T) {
				t.Parallel()
				reached := true
				for n := 0; reached; n++ {
					reached = false
					dir, root := newVolume(t)
					w := atomicdir.InPlace{}
					mustWrite(t, w, root, files{"a": "1", "d/a": "1"}.tree(t))
					mounted := []string{bind(t, filepath.Join(dir, "a")), bind(t, filepath.Join(dir, "d/a"))}
					mustWrite(t, w, root, step[0].tree(t))
					_ = writeStopped(stopping(w, how, n, &reached), root, step[1].tree(t))
					for i, next := range []files{step[1], {"b": "3"}, {"a": "4", "d/a": "4"}} {
						mustWrite(t, w, root, next.tree(t))
						checkVolume(t, w, dir, next.tree(t))
						checkMounted(t, mounted[0], next["a"])
						checkMounted(t, mounted[1], next["d/a"])
						for _, size := range keptFiles(t, dir) {
							if size > 0 {
								t.Fatalf("stopped at %d, write %d: an inode that waits has %d bytes", n, i, size)
							}
						}
					}
				}
			})
		}
	}
}
