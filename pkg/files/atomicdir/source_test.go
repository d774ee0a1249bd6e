package atomicdir_test

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/liveconfig-csi/liveconfig/pkg/expect"
	"github.com/liveconfig-csi/liveconfig/pkg/files/atomicdir"
	"github.com/liveconfig-csi/liveconfig/pkg/files/tree"
)

const sourceAttribute = "trusted.liveconfig.source"

// everything are limits that no test reaches.
var everything = atomicdir.Limits{Bytes: 1 << 20, Entries: 100}

// keepsSources reports whether files can have sources here: the tests may run in a user namespace, which has no right to that.
func keepsSources(t *testing.T) bool {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	expect.NoError(t, os.WriteFile(path, nil, 0o600))
	err := unix.Setxattr(path, sourceAttribute, []byte("x"), 0)
	if err != nil && !errors.Is(err, unix.EPERM) {
		t.Fatal(err)
	}
	return err == nil
}

// from gives each file of a tree a source.
func from(source string, t tree.Tree) tree.Tree {
	for i := range t.Files {
		t.Files[i].Source = source + "/" + t.Files[i].Path
	}
	return t
}

// wantRead checks what is read of the files of a tree.
func wantRead(t *testing.T, root *os.File, want tree.Tree) {
	t.Helper()
	found, err := atomicdir.Read(root, everything)
	expect.NoError(t, err)
	got, err := tree.New(found)
	expect.NoError(t, err)
	wanted := make([]tree.File, 0, len(want.Files))
	for _, f := range want.Files {
		f.Mode = 0
		if !keepsSources(t) {
			f.Source = ""
		}
		wanted = append(wanted, f)
	}
	if diff := cmp.Diff(wanted, got.Files); diff != "" {
		t.Errorf("files that are read (-want +got):\n%s", diff)
	}
}

// TestFilesAreReadWithTheirSources, after each update.
func TestFilesAreReadWithTheirSources(t *testing.T) {
	t.Parallel()
	for name, w := range writers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, root := newVolume(t)
			for _, want := range []tree.Tree{
				from("a", files{"one": "1", "k/two": "2", "k/l/three": ""}.tree(t)),
				from("a", files{"one": "changed", "k/two": "2", "four": "4"}.tree(t)),
				from("b", files{"one": "changed", "k/two": "2", "four": "4"}.tree(t)), // Other objects, the same bytes.
			} {
				if changed := mustWrite(t, w, root, want); !changed && keepsSources(t) {
					t.Error("nothing is written")
				}
				checkVolume(t, w, dir, want)
				wantRead(t, root, want)
				checkUnchanged(t, w, dir, root, want)
			}
		})
	}
}

// TestAFileOfAnotherSourceIsNotKept, while those that stay the same keep their source with their inode.
func TestAFileOfAnotherSourceIsNotKept(t *testing.T) {
	t.Parallel()
	_, root := newVolume(t)
	before, after := from("a", files{"one": "1", "two": "2"}.tree(t)), from("a", files{"one": "1", "two": "2"}.tree(t))
	after.Files[1].Source = "b"
	w := knowing()
	mustWrite(t, w, root, before)
	w = keeping(w, before, after)
	if !w.Keeps("one") || w.Keeps("two") {
		t.Error("want that one is kept and two is not")
	}
	mustWrite(t, w, root, after)
	wantRead(t, root, after)
}

// TestAFileThatComesBackHasItsNewSource: an InPlace gives it the inode that it had, which another object may have had.
func TestAFileThatComesBackHasItsNewSource(t *testing.T) {
	t.Parallel()
	for name, w := range writers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, root := newVolume(t)
			mustWrite(t, w, root, from("a", files{"one": "1", "k/two": "2"}.tree(t)))
			mustWrite(t, w, root, files{}.tree(t))
			back := from("b", files{"one": "1", "k/two": "2"}.tree(t))
			mustWrite(t, w, root, back)
			wantRead(t, root, back)
		})
	}
}

// TestAFileWithoutASourceStays: not each kernel can keep one, and an earlier version of the driver did not.
func TestAFileWithoutASourceStays(t *testing.T) {
	t.Parallel()
	for name, w := range writers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, root := newVolume(t)
			mustWrite(t, w, root, files{"one": "1"}.tree(t))
			checkUnchanged(t, w, dir, root, from("a", files{"one": "1"}.tree(t)))
		})
	}
}

// TestAFileSystemWithoutAttributes, as a kernel may have: files are written, and have no source.
func TestAFileSystemWithoutAttributes(t *testing.T) {
	t.Parallel()
	for name, w := range writers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			expect.NoError(t, unix.Mount("ramfs", dir, "ramfs", 0, "mode=0755"))
			t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
			root := openRoot(t, dir)
			mustWrite(t, w, root, from("a", files{"one": "1", "k/two": "2"}.tree(t)))
			for _, of := range []string{"a", "b"} {
				checkUnchanged(t, w, dir, root, from(of, files{"one": "1", "k/two": "2"}.tree(t)))
			}
			want := files{"one": "changed", "k/two": "2"}.tree(t)
			mustWrite(t, w, root, from("b", files{"one": "changed", "k/two": "2"}.tree(t)))
			checkVolume(t, w, dir, want)
			wantRead(t, root, want)
		})
	}
}

// TestWhatIsNotRead: more than the limits, and what no writer leaves.
func TestWhatIsNotRead(t *testing.T) {
	t.Parallel()
	only := func(source string) func(string) bool { return func(of string) bool { return of == source } }
	for name, tt := range map[string]struct {
		limits  atomicdir.Limits
		damage  func(dir string) error
		isFound bool
	}{
		"as many as there may be": {limits: atomicdir.Limits{Bytes: 4, Entries: 4}, isFound: true},
		"too many bytes":          {limits: atomicdir.Limits{Bytes: 3, Entries: 4}},
		"too many entries":        {limits: atomicdir.Limits{Bytes: 4, Entries: 3}},
		"the bytes of no source":  {limits: atomicdir.Limits{Entries: 4, Of: only("other")}, isFound: true},
		"too deep": {limits: everything, damage: func(dir string) error {
			return os.MkdirAll(filepath.Join(dir, "..data", strings.Repeat("d/", 65)), 0o700)
		}},
		"a pipe": {limits: everything, damage: func(dir string) error {
			return unix.Mkfifo(filepath.Join(dir, "..data", "pipe"), 0o600)
		}},
		"a link": {limits: everything, damage: func(dir string) error {
			return os.Symlink("/etc/passwd", filepath.Join(dir, "..data", "link"))
		}},
		"no generation": {limits: everything, damage: func(dir string) error { return os.Remove(filepath.Join(dir, "..data")) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, root := newVolume(t)
			mustWrite(t, atomicdir.Atomic{}, root, from("a", files{"one": "12", "k/two": "34"}.tree(t)))
			if tt.damage != nil {
				expect.NoError(t, tt.damage(dir))
			}
			found, err := atomicdir.Read(root, tt.limits)
			if (err == nil) != tt.isFound || (len(found) > 0) != tt.isFound {
				t.Errorf("%d files, error %v, want that they are found: %t", len(found), err, tt.isFound)
			}
		})
	}
}

// TestASourceThatIsTooLong is refused before anything is written.
func TestASourceThatIsTooLong(t *testing.T) {
	t.Parallel()
	dir, root := newVolume(t)
	wanted := files{"one": "1"}.tree(t)
	before := maps.Clone(stamps(t, dir))
	wanted.Files[0].Source = string(make([]byte, tree.MaxSource+1))
	if _, err := (atomicdir.Atomic{}).Write(root, wanted); err == nil {
		t.Error("no error")
	}
	checkUntouched(t, dir, before)
	wanted.Files[0].Source = string(make([]byte, tree.MaxSource))
	mustWrite(t, atomicdir.Atomic{}, root, wanted)
}
