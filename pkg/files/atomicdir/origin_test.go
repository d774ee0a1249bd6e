package atomicdir_test

import (
	"maps"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/liveconfig-csi/liveconfig/pkg/expect"
	"github.com/liveconfig-csi/liveconfig/pkg/files/atomicdir"
	"github.com/liveconfig-csi/liveconfig/pkg/files/tree"
)

// keeping returns w for a tree that comes after another one, whose files stay where they are the same.
func keeping(w atomicdir.Atomic, from, to tree.Tree) atomicdir.Atomic {
	_, before := from.DigestAfter(tree.Sums{})
	_, now := to.DigestAfter(before)
	w.Differs, w.Keeps = true, func(path string) bool { return now.HaveSame(before, path) }
	return w
}

// inodes returns the inode of each file of the tree in a volume.
func inodes(t *testing.T, dir string, of tree.Tree) map[string]uint64 {
	t.Helper()
	found := map[string]uint64{}
	for _, f := range of.Files {
		i, err := os.Stat(filepath.Join(dir, f.Path))
		expect.NoError(t, err)
		found[f.Path] = i.Sys().(*syscall.Stat_t).Ino //nolint:forcetypeassert // On Linux it is that.
	}
	return found
}

// TestFilesThatDoNotChangeStay updates a directory. Files that stay as they are keep their inodes, and no other file does.
func TestFilesThatDoNotChangeStay(t *testing.T) {
	t.Parallel()
	for name, u := range updates() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, root := newVolume(t)
			from, to, w := u.from.tree(t), u.to.tree(t), knowing()
			mustWrite(t, w, root, from)
			before := inodes(t, dir, from)
			w = keeping(w, from, to)
			mustWrite(t, w, root, to)
			checkVolume(t, w, dir, to)
			for path, inode := range inodes(t, dir, to) {
				if got, want := inode == before[path], w.Keeps(path); got != want {
					t.Errorf("the file %s has the inode that it had: %t, want %t", path, got, want)
				}
			}
			checkUnchanged(t, knowing(), dir, root, to)
		})
	}
}

// TestAFileOfWhichOnlyTheModeChangesIsWritten changes a mode and an owner: the old file must not change with the new one.
func TestAFileOfWhichOnlyTheModeChangesIsWritten(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*tree.Tree){
		"mode":  func(t *tree.Tree) { t.Files[0].Mode = 0o600 },
		"user":  func(t *tree.Tree) { t.Files[0].User = new(7) },
		"group": func(t *tree.Tree) { t.GID = 7 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, root := newVolume(t)
			from, to, w := files{"a": "one"}.tree(t), files{"a": "one"}.tree(t), knowing()
			change(&to)
			mustWrite(t, w, root, from)
			before := inodes(t, dir, from)
			mustWrite(t, keeping(w, from, to), root, to)
			checkVolume(t, w, dir, to)
			if maps.Equal(before, inodes(t, dir, to)) {
				t.Error("the file is the same inode")
			}
		})
	}
}

// TestFilesThatStayAreDamaged damages files behind the writer's back. Those that stay may stay damaged until the next Write that
// compares files, which puts everything right.
func TestFilesThatStayAreDamaged(t *testing.T) {
	t.Parallel()
	damages := damagesToAll()
	maps.Copy(damages, damagesToAtomic())
	for name, damage := range damages {
		for _, next := range []files{{"a": "three", "k/b": "two"}, {"a": "one", "k/b": "three"}} {
			t.Run(name+"/"+next["a"], func(t *testing.T) {
				t.Parallel()
				dir, root := newVolume(t)
				from, to, w := files{"a": "one", "k/b": "two"}.tree(t), next.tree(t), knowing()
				mustWrite(t, w, root, from)
				<-time.After(20 * time.Millisecond) // Longer than the kernel's clock for files may stand still.
				damage(dirOf{t, dir})
				mustWrite(t, keeping(w, from, to), root, to)
				mustWrite(t, w, root, to)
				checkVolume(t, w, dir, to)
				checkUnchanged(t, w, dir, root, to)
			})
		}
	}
}

// TestFilesOfAStrangeGenerationDoNotStay leads ..data to other files behind the writer's back.
func TestFilesOfAStrangeGenerationDoNotStay(t *testing.T) {
	t.Parallel()
	dir, root := newVolume(t)
	from, to, w := files{"a": "one", "b": "two"}.tree(t), files{"a": "one", "b": "three"}.tree(t), knowing()
	mustWrite(t, w, root, from)
	<-time.After(20 * time.Millisecond)
	d := dirOf{t, dir}
	d.write("..2020_01_02_03_04_05.1/a", "stale")
	d.link("..2020_01_02_03_04_05.1", "..data")
	mustWrite(t, keeping(w, from, to), root, to)
	checkVolume(t, w, dir, to)
}

// TestAFileThatCannotBeLinkedIsWritten has the kernel refuse the link.
func TestAFileThatCannotBeLinkedIsWritten(t *testing.T) {
	t.Parallel()
	for _, refusal := range []error{unix.ENOENT, unix.EPERM, unix.EMLINK} {
		dir, root := newVolume(t)
		from, to, w := files{"a": "one", "b": "two"}.tree(t), files{"a": "one", "b": "three"}.tree(t), knowing()
		mustWrite(t, w, root, from)
		refused := 0
		mustWrite(t, atomicdir.WithHook(keeping(w, from, to), func(op, _ string) error {
			if op != "link" {
				return nil
			}
			refused++
			return refusal
		}), root, to)
		checkVolume(t, w, dir, to)
		if refused != 1 {
			t.Errorf("%d links were refused, want that of one file", refused)
		}
	}
}
