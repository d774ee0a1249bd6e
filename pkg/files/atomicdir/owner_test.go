package atomicdir_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/liveconfig-csi/liveconfig/pkg/expect"
	"github.com/liveconfig-csi/liveconfig/pkg/files/atomicdir"
	"github.com/liveconfig-csi/liveconfig/pkg/files/tree"
)

// knows reports whether an ID exists in our user namespace, by the table at path: an ordinary user's tests run in one that
// has no user and no group but 0.
func knows(t *testing.T, path string, id int) bool {
	t.Helper()
	table, err := os.ReadFile(path)
	expect.NoError(t, err)
	for line := range strings.Lines(string(table)) {
		fields := strings.Fields(line)
		first, err1 := strconv.Atoi(fields[0])
		count, err2 := strconv.Atoi(fields[2])
		expect.NoError(t, errors.Join(err1, err2))
		if first <= id && id < first+count {
			return true
		}
	}
	return false
}

// owned is a tree as fsGroup makes it, with one file that belongs to root in any case.
func owned(t *testing.T, uid, gid int) tree.Tree {
	t.Helper()
	want := files{"a": "0440:1", "d/e/b": "0640:2", "d/c": "0551:3"}.tree(t)
	want.DirMode, want.UID, want.GID = 0o755|fs.ModeSetgid, uid, gid
	want.Files[0].User = new(0)
	return want
}

// TestGroup changes the owner of a volume, there and back. Where the user namespace does not have the owner, the writer
// has to report that and leave the files alone. These are rules 52 and 53 on disk; modes and owners count as changes (rule
// 30).
func TestGroup(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ uid, gid int }{
		"setgid directories of our own group": {0, 0},
		"another group":                       {0, 2000},
		"another user":                        {1000, 0},
		"another user and group":              {65534, 65534},
	}
	for kind, w := range writers() {
		for name, test := range tests {
			t.Run(kind+"/"+name, func(t *testing.T) {
				t.Parallel()
				dir, root := newVolume(t)
				plain := files{"a": "0440:1", "x/y": "0644:2"}.tree(t)
				mustWrite(t, w, root, plain)
				want := owned(t, test.uid, test.gid)
				if !knows(t, "/proc/self/uid_map", test.uid) || !knows(t, "/proc/self/gid_map", test.gid) {
					if _, err := w.Write(root, want); !errors.Is(err, unix.EINVAL) {
						t.Errorf("Write for an owner that does not exist = %v, want EINVAL", err)
					}
					checkVolume(t, w, dir, plain)
					return
				}
				for _, next := range []tree.Tree{want, plain, want} {
					mustWrite(t, w, root, next)
					checkVolume(t, w, dir, next)
					checkOwners(t, dir, next)
				}
				checkUnchanged(t, w, dir, root, want)
			})
		}
	}
}

func checkOwners(t *testing.T, dir string, want tree.Tree) {
	t.Helper()
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || strings.HasPrefix(d.Name(), "..kept-") { // Empty, with the owner of a file that is gone.
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		uid := want.UID
		for _, f := range want.Files {
			if d.Type().IsRegular() && strings.HasSuffix(p, "/"+f.Path) {
				uid = want.UserOf(f)
			}
		}
		if st, ok := info.Sys().(*syscall.Stat_t); !ok || int(st.Uid) != uid || int(st.Gid) != want.GID {
			t.Errorf("owner of %s is %v, want %d:%d", p, info.Sys(), uid, want.GID)
		}
		return nil
	})
	expect.NoError(t, err)
}

func inode(t *testing.T, dir, name string) uint64 {
	t.Helper()
	var st unix.Stat_t
	expect.NoError(t, unix.Stat(filepath.Join(dir, name), &st))
	return st.Ino
}

// TestInodes distinguishes the three writers by the files that they create again.
func TestInodes(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		writer                   atomicdir.Writer
		changedStays, othersStay bool
	}{
		"Atomic makes all files again":   {atomicdir.Atomic{}, false, false},
		"Replace keeps what is equal":    {atomicdir.Replace{}, false, true},
		"InPlace keeps also what is not": {atomicdir.InPlace{}, true, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, root := newVolume(t)
			mustWrite(t, test.writer, root, files{"a": "0644:old and long", "m": "0644:1", "d/b": "1", "d/c": "1"}.tree(t))
			old := map[string]uint64{}
			for _, p := range []string{"a", "m", "d/b", "d/c"} {
				old[p] = inode(t, dir, p)
			}
			// Held open, so that the numbers of removed files are not given out again.
			for p := range old {
				f, err := os.Open(filepath.Join(dir, p))
				expect.NoError(t, err)
				defer f.Close()
			}
			mustWrite(t, test.writer, root, files{"a": "0644:new", "m": "0600:1", "d/b": "22", "d/c": "1"}.tree(t))
			for _, p := range []string{"a", "m", "d/b"} {
				if same := inode(t, dir, p) == old[p]; same != test.changedStays {
					t.Errorf("changed file %s has its old inode: %t, want %t", p, same, test.changedStays)
				}
			}
			if same := inode(t, dir, "d/c") == old["d/c"]; same != test.othersStay {
				t.Errorf("unchanged file has its old inode: %t, want %t", same, test.othersStay)
			}
		})
	}
}

// TestSubPath checks what a container sees that mounts one file of the volume: only InPlace reaches it. A container that starts
// again after an update finds the file as it is then. This is rule 50. This is fault 9.
func TestSubPath(t *testing.T) {
	t.Parallel()
	for kind, w := range writers() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			dir, root := newVolume(t)
			mustWrite(t, w, root, files{"a": "old", "d/a": "old", "z": "old"}.tree(t))
			top, nested, gone := bind(t, dir+"/a"), bind(t, dir+"/d/a"), bind(t, dir+"/z")
			want, removed := "old", "old"
			for _, text := range []string{"the new one", "the newest"} {
				mustWrite(t, w, root, files{"a": text, "d/a": text}.tree(t))
				if kind == "InPlace" {
					want, removed = text, ""
				}
				checkMounted(t, top, want)
				checkMounted(t, nested, want)
				checkMounted(t, gone, removed)
				checkMounted(t, bind(t, dir+"/a"), text)
			}
		})
	}
}

// bind mounts a file or directory by itself, as a runtime does for a subPath.
func bind(t *testing.T, path string) (at string) {
	t.Helper()
	at = t.TempDir()
	if info, err := os.Stat(path); err == nil && !info.IsDir() {
		at += "/file"
		expect.NoError(t, os.WriteFile(at, nil, 0o600))
	}
	expect.NoError(t, unix.Mount(path, at, "", unix.MS_BIND, ""))
	t.Cleanup(func() { _ = unix.Unmount(at, unix.MNT_DETACH) })
	return at
}

func checkMounted(t *testing.T, file, want string) {
	t.Helper()
	if got, err := os.ReadFile(file); string(got) != want {
		t.Errorf("a file mounted by itself reads %q, %v, want %q", got, err, want)
	}
}

// TestSubPathOfADirectory: with plain files it shows what comes and goes.
func TestSubPathOfADirectory(t *testing.T) {
	t.Parallel()
	for _, w := range []atomicdir.Writer{atomicdir.InPlace{}, atomicdir.Replace{}} {
		t.Run(fmt.Sprintf("%T", w), func(t *testing.T) {
			t.Parallel()
			dir, root := newVolume(t)
			mustWrite(t, w, root, files{"d/stays": "1", "d/goes": "1", "d/e/f": "1"}.tree(t))
			at := bind(t, dir+"/d")
			mustWrite(t, w, root, files{"d/stays": "2", "d/comes": "2", "d/e/f": "2", "d/g/h": "2"}.tree(t))
			want := wantView(files{"stays": "2", "comes": "2", "e/f": "2", "g/h": "2"}.tree(t))
			if diff := cmp.Diff(want, see(t, at)); diff != "" {
				t.Errorf("what the mount shows (-want +got):\n%s", diff)
			}
		})
	}
}
