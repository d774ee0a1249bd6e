package atomicdir_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/liveconfig-csi/liveconfig/pkg/expect"
	"github.com/liveconfig-csi/liveconfig/pkg/files/atomicdir"
)

// newTmpfs returns a volume that is a separate tmpfs with such options as «size=64k».
func newTmpfs(t *testing.T, options string) (dir string, root *os.File) {
	t.Helper()
	dir = t.TempDir()
	expect.NoError(t, unix.Mount("tmpfs", dir, "tmpfs", 0, "mode=0755,"+options))
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	return dir, openRoot(t, dir)
}

func free(t *testing.T, dir string) (left [2]uint64) {
	t.Helper()
	var st unix.Statfs_t
	expect.NoError(t, unix.Statfs(dir, &st))
	return [2]uint64{st.Bfree, st.Ffree}
}

// tightUpdates need more room on the way than the old or the new files do.
func tightUpdates() map[string]change {
	page := strings.Repeat("x", os.Getpagesize())
	return map[string]change{
		"files grow": {files{"a": page, "b": page, "k/c": page}, files{"a": page + "2", "b": page + page + "2", "k/c": page + "2"}},
		"files come": {files{"a": "1"}, files{"a": "2", "b": page, "c": page, "d/e": page}},
		"many names come": {
			files{"a": "1", "b": "1"},
			files{"a": "2", "c": "", "d": "", "e": "", "f/g/h": "", "i/j": "", "k": "", "l": "", "m": ""},
		},
		"names are exchanged":        {files{"a": "1", "b": "1", "c": "1"}, files{"d": "1", "e": "1", "f": "1"}},
		"a file becomes directories": {files{"a": "1"}, files{"a/b/c/d/e": "1"}},
	}
}

// TestOutOfSpace makes each update under every limit from none at all to plenty, in pages and in inodes: it either
// succeeds or leaves every file, name and free page as it was. This is rule 46. These are faults 2 and 3.
func TestOutOfSpace(t *testing.T) {
	t.Parallel()
	for kind, w := range writers() {
		for name, u := range tightUpdates() {
			for _, unit := range []string{"size=%dk,nr_inodes=1000", "size=1000k,nr_inodes=%d"} {
				t.Run(kind+"/"+name+"/"+unit, func(t *testing.T) {
					t.Parallel()
					failed, limit := 0, 1
					for done := false; !done; limit++ {
						n := limit
						if strings.HasPrefix(unit, "size") {
							n *= os.Getpagesize() / 1024
						}
						t.Run(fmt.Sprint(n), func(t *testing.T) {
							if done = writeUnder(t, w, u, fmt.Sprintf(unit, n)); !done {
								failed++
							}
						})
						if t.Failed() || limit > 100 {
							t.Fatalf("no success up to a limit of %d", limit)
						}
					}
					if failed == 0 {
						t.Error("no limit was too small: nothing was tested")
					}
				})
			}
		}
	}
}

func writeUnder(t *testing.T, w atomicdir.Writer, u change, limit string) (fits bool) {
	t.Helper()
	dir, root := newTmpfs(t, limit)
	from, to := u.from.tree(t), u.to.tree(t)
	empty := free(t, dir)
	if _, err := w.Write(root, from); err != nil {
		checkNoSpace(t, err)
		if left := free(t, dir); left != empty {
			t.Errorf("a failed first Write leaves %v pages and inodes, want %v", left, empty)
		}
		return false
	}
	before := free(t, dir)
	_, err := w.Write(root, to)
	if err == nil {
		checkVolume(t, w, dir, to)
		checkHealsUnder(t, w, u, limit)
		return true
	}
	checkNoSpace(t, err)
	checkVolume(t, w, dir, from)
	if left := free(t, dir); left != before {
		t.Errorf("a failed Write leaves %v pages and inodes, want %v", left, before)
	}
	checkUnchanged(t, w, dir, root, from)
	return false
}

// TestWhatFitsIsWrittenAfterFailures: they do not add up (fault 2).
func TestWhatFitsIsWrittenAfterFailures(t *testing.T) {
	t.Parallel()
	many := func(n int, p, text string) files {
		all := files{}
		for i := range n {
			all[fmt.Sprintf(p, i)] = text
		}
		return all
	}
	tests := map[string]struct{ old, tooMuch, fits files }{
		"too many bytes":       {many(8, "old%d", "1"), many(8, "new%d", strings.Repeat("2", 9000)), many(8, "new%d", "3")},
		"files that stay grow": {many(8, "f%d", "1"), many(8, "f%d", strings.Repeat("2", 9000)), many(8, "f%d", "3")},
		"too many inodes":      {many(8, "old%d", "1"), many(80, "new%d", ""), many(8, "new%d", "3")},
		"too many directories": {many(8, "old%d", "1"), many(40, "a/b/c/new/d%d/file", ""), files{"a/b/c/d/e": "3"}},
	}
	for kind, w := range writers() {
		for name, tt := range tests {
			t.Run(kind+"/"+name, func(t *testing.T) {
				t.Parallel()
				dir, root := newTmpfs(t, "size=64k,nr_inodes=60")
				mustWrite(t, w, root, tt.old.tree(t))
				before := free(t, dir)
				for range 3 {
					_, err := w.Write(root, tt.tooMuch.tree(t))
					checkNoSpace(t, err)
				}
				checkVolume(t, w, dir, tt.old.tree(t))
				if left := free(t, dir); left != before {
					t.Errorf("failed writes leave %v pages and inodes, want %v", left, before)
				}
				mustWrite(t, w, root, tt.fits.tree(t))
				checkVolume(t, w, dir, tt.fits.tree(t))
			})
		}
	}
}

func checkNoSpace(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, unix.ENOSPC) {
		t.Errorf("Write = %v, want no space", err)
	}
}

// checkHealsUnder kills the update at every point under a limit that is just enough for it, and then has it made again:
// what the killed one left must not take the room.
func checkHealsUnder(t *testing.T, w atomicdir.Writer, u change, limit string) {
	t.Helper()
	for n, reached := 0, true; reached; n++ {
		reached = false
		dir, root := newTmpfs(t, limit)
		mustWrite(t, w, root, u.from.tree(t))
		_ = writeStopped(stopping(w, "killed", n, &reached), root, u.to.tree(t))
		if _, err := w.Write(root, u.to.tree(t)); err != nil {
			t.Errorf("Write after being killed at change %d: %v", n, err)
			continue
		}
		checkVolume(t, w, dir, u.to.tree(t))
	}
}
