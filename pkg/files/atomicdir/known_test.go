package atomicdir_test

import (
	"errors"
	"maps"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/liveconfig-csi/liveconfig/pkg/expect"
	"github.com/liveconfig-csi/liveconfig/pkg/files/atomicdir"
	"github.com/liveconfig-csi/liveconfig/pkg/files/tree"
)

// knowing returns an Atomic that knows what the Writes of a directory left.
func knowing() atomicdir.Atomic { return atomicdir.Atomic{Known: &atomicdir.Known{}} }

// differing returns w for trees that are known to differ from the live files.
func differing(w atomicdir.Atomic) atomicdir.Atomic {
	w.Differs = true
	return w
}

// TestAKnownDirectoryIsNotListed writes through a handle that cannot list: that fails unless the directory is known.
func TestAKnownDirectoryIsNotListed(t *testing.T) {
	t.Parallel()
	old, next := files{"a": "one", "k/b": "two"}.tree(t), files{"a": "three", "k/b": "two"}.tree(t)
	dir, root := newVolume(t)
	w := knowing()
	mustWrite(t, atomicdir.Atomic{Known: w.Known, IsNew: true}, root, old)

	handle, err := os.OpenFile(dir, unix.O_PATH|unix.O_DIRECTORY, 0)
	expect.NoError(t, err)
	defer handle.Close()
	mustWrite(t, differing(w), handle, next)
	checkVolume(t, w, dir, next)
	mustWrite(t, differing(w), handle, old)
	checkVolume(t, w, dir, old)
	if _, err := differing(w).Write(handle, files{"a": "one", "k/b": "two", "m": ""}.tree(t)); !errors.Is(err, unix.EBADF) {
		t.Errorf("Write of other names without a list of the root = %v, want %v", err, unix.EBADF)
	}
	if _, err := differing(w).Write(handle, next); !errors.Is(err, unix.EBADF) {
		t.Errorf("Write after one that failed, without a list of the root = %v, want %v", err, unix.EBADF)
	}
	checkVolume(t, w, dir, old)
}

// TestAKnownDirectoryThatIsDamaged damages a directory behind the writer's back: the next Write finds that.
func TestAKnownDirectoryThatIsDamaged(t *testing.T) {
	t.Parallel()
	old, next := files{"a": "one", "k/b": "two"}, files{"a": "three", "k/b": "two"}
	damages := damagesToAll()
	maps.Copy(damages, damagesToAtomic())
	for name, damage := range damages {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, root := newVolume(t)
			w := knowing()
			mustWrite(t, w, root, old.tree(t))
			<-time.After(20 * time.Millisecond) // Longer than the kernel's clock for files may stand still.
			damage(dirOf{t, dir})
			mustWrite(t, differing(w), root, next.tree(t))
			checkVolume(t, w, dir, next.tree(t))
			checkUnchanged(t, w, dir, root, next.tree(t))
		})
	}
}

// TestAKnownDirectoryAfterAnEarlyEnd ends Writes into a known directory before each change that they make, with all files written
// and with those kept that do not change. The next Write, by the same process or by another one, and the one after it put
// everything right.
func TestAKnownDirectoryAfterAnEarlyEnd(t *testing.T) {
	t.Parallel()
	for kind, writer := range map[string]func(w atomicdir.Atomic, from, to tree.Tree) atomicdir.Atomic{
		"all files":     func(w atomicdir.Atomic, _, _ tree.Tree) atomicdir.Atomic { return differing(w) },
		"changed files": keeping,
	} {
		for how := range stops() {
			for name, u := range updates() {
				t.Run(kind+"/"+how+"/"+name, func(t *testing.T) {
					t.Parallel()
					for n, reached := 0, true; reached; n++ {
						reached = false
						dir, root := newVolume(t)
						from, to, w := u.from.tree(t), u.to.tree(t), knowing()
						mustWrite(t, w, root, from)
						err := writeStopped(stopping(writer(w, from, to), how, n, &reached), root, to)
						checkBetween(t, w, dir, from, to)
						if err != nil {
							checkHeals(t, w, dir, root, to)
						}
						mustWrite(t, writer(w, to, from), root, from)
						checkVolume(t, w, dir, from)
						expect.NoError(t, os.RemoveAll(dir))
					}
				})
			}
		}
	}
}

// TestGenerationsOfAKnownDirectoryHaveTheirGrace replaces files of a known directory several times.
func TestGenerationsOfAKnownDirectoryHaveTheirGrace(t *testing.T) {
	t.Parallel()
	const grace = time.Second
	dir, root := newVolume(t)
	w := knowing()
	w.Grace = atomicdir.Grace{Time: grace, Bytes: 1 << 20}
	for i, data := range []string{"one", "two", "three"} {
		mustWrite(t, differing(w), root, files{"a": data}.tree(t))
		wantGenerations(t, dir, i+1)
	}
	<-time.After(grace + grace/4)
	mustWrite(t, differing(w), root, files{"a": "four"}.tree(t))
	wantGenerations(t, dir, 2)
	w.Grace.Bytes = 0
	_, err := differing(w).Write(root, files{"a": "five"}.tree(t))
	if _, isEarly := errors.AsType[*atomicdir.EarlyError](err); !isEarly {
		t.Errorf("Write while the only other generation has its grace = %v, want an EarlyError", err)
	}
	wantGenerations(t, dir, 2)
}
