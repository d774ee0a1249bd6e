package atomicdir_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/liveconfig-csi/liveconfig/pkg/expect"
	"github.com/liveconfig-csi/liveconfig/pkg/files/atomicdir"
	"github.com/liveconfig-csi/liveconfig/pkg/files/tree"
)

var errInjected = errors.New("injected")

// killed is what a hook panics with to stop a writer dead, as SIGKILL would: nothing of it runs any more.
type killed struct{}

// stops are the ways in which a Write can end early: what becomes of its change number i where it is to end at number n
// or before (from 0).
func stops() map[string]func(i, n int) error {
	return map[string]func(i, n int) error{
		"killed": func(int, int) error { panic(killed{}) },
		"one change fails": func(i, n int) error {
			if i == n {
				return errInjected
			}
			return nil
		},
		"every change fails from then on": func(int, int) error { return errInjected },
	}
}

// stopping returns a writer that ends in one of the ways, and reports in reached whether it has come to that.
func stopping(w atomicdir.Writer, how string, n int, reached *bool) atomicdir.Writer {
	act, i := stops()[how], -1
	return atomicdir.WithHook(w, func(string, string) error {
		i++
		if i < n {
			return nil
		}
		*reached = true
		return act(i, n)
	})
}

// writeStopped runs a Write that may be killed.
func writeStopped(w atomicdir.Writer, root *os.File, want tree.Tree) (err error) {
	defer func() {
		switch r := recover(); r.(type) {
		case nil:
		case killed:
			err = errInjected
		default:
			panic(r)
		}
	}()
	_, err = w.Write(root, want)
	return err
}

// TestStopAnywhere stops an update before each single change it makes to the disk, and checks what users see then and
// that the next Write, of the new or of the old files, puts everything right. These are rules 39 to 44 (trap 7).
// These are faults 1 and 4.
func TestStopAnywhere(t *testing.T) {
	t.Parallel()
	for kind, w := range writers() {
		for how := range stops() {
			for name, u := range updates() {
				t.Run(kind+"/"+how+"/"+name, func(t *testing.T) {
					t.Parallel()
					for n, reached := 0, true; reached; n++ {
						reached = false
						stopAt(t, w, stopping(w, how, n, &reached), u, u.to)
						stopAt(t, w, stopping(w, how, n, &reached), u, u.from)
					}
				})
			}
		}
	}
}

func stopAt(t *testing.T, w, stopped atomicdir.Writer, u change, next files) {
	t.Helper()
	dir, root := newVolume(t)
	from, to := u.from.tree(t), u.to.tree(t)
	mustWrite(t, w, root, from)
	before := layout(t, dir)
	err := writeStopped(stopped, root, to)
	checkBetween(t, w, dir, from, to)
	if _, ok := w.(atomicdir.Atomic); ok && err != nil && !errors.Is(err, errInjected) {
		t.Errorf("Write = %v, want the injected error", err)
	}
	if diff := cmp.Diff(before, layout(t, dir)); err == nil && diff == "" && !cmp.Equal(from.Names(), to.Names()) {
		t.Error("Write reports success and has not changed the names")
	}
	checkHeals(t, w, dir, root, next.tree(t))
	expect.NoError(t, os.RemoveAll(dir))
}

// checkBetween checks what holds for users at any moment of an update.
func checkBetween(t *testing.T, w atomicdir.Writer, dir string, from, to tree.Tree) {
	t.Helper()
	old, now, got := wantView(from), wantView(to), see(t, dir)
	for p := range old {
		if _, stays := now[p]; stays && !strings.HasPrefix(got[p], old[p][:1]) && old[p][0] == now[p][0] {
			t.Errorf("%T: %s is %q; it is in the old and in the new files and should always be there", w, p, got[p])
		}
	}
	switch w.(type) {
	case atomicdir.Atomic:
		checkData(t, dir, from, to)
	case atomicdir.Replace:
		for p, s := range got {
			if p != "." && s != old[p] && s != now[p] {
				t.Errorf("%s is %q, want %q or %q", p, s, old[p], now[p])
			}
		}
	case atomicdir.InPlace:
		checkLengths(t, dir, from, to)
	}
}

// checkData checks that what ..data leads to is complete: all old or all new.
func checkData(t *testing.T, dir string, from, to tree.Tree) {
	t.Helper()
	if _, err := os.Lstat(filepath.Join(dir, "..data")); errors.Is(err, os.ErrNotExist) {
		t.Fatal("..data does not exist")
	}
	got := see(t, filepath.Join(dir, "..data"))
	if !cmp.Equal(got, wantView(from)) && !cmp.Equal(got, wantView(to)) {
		t.Errorf("..data is neither the old nor the new files:\n%v", got)
	}
}

// checkLengths checks that no file is cut below both its old and its new length.
func checkLengths(t *testing.T, dir string, from, to tree.Tree) {
	t.Helper()
	sizes := map[string]int64{}
	for _, f := range from.Files {
		sizes[f.Path] = int64(len(f.Data))
	}
	for _, f := range to.Files {
		size, ok := sizes[f.Path]
		info, err := os.Stat(filepath.Join(dir, f.Path))
		if !ok || err != nil {
			continue
		}
		if info.Size() < min(size, int64(len(f.Data))) {
			t.Errorf("%s has %d bytes, old %d, new %d", f.Path, info.Size(), size, len(f.Data))
		}
	}
}

// TestEveryMoment looks at the volume before each change that an update makes, without stopping it. That shows the
// order of rules 35 to 38 (trap 6). This is fault 5.
func TestEveryMoment(t *testing.T) {
	t.Parallel()
	for kind, w := range writers() {
		for name, u := range updates() {
			t.Run(kind+"/"+name, func(t *testing.T) {
				t.Parallel()
				dir, root := newVolume(t)
				from, to := u.from.tree(t), u.to.tree(t)
				mustWrite(t, w, root, from)
				watching := atomicdir.WithHook(w, func(string, string) error {
					checkBetween(t, w, dir, from, to)
					return nil
				})
				mustWrite(t, watching, root, to)
				mustWrite(t, watching, root, from)
			})
		}
	}
}

// TestFailureBeforeTheSwapLeavesNoTrace checks that an Atomic whose update fails once, with the old files still live,
// has put back every name and removed everything it made. This is rule 46 (trap 3). This is fault 3.
func TestFailureBeforeTheSwapLeavesNoTrace(t *testing.T) {
	t.Parallel()
	for name, u := range updates() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			from, to := u.from.tree(t), u.to.tree(t)
			for n, reached := 0, true; reached; n++ {
				reached = false
				dir, root := newVolume(t)
				mustWrite(t, atomicdir.Atomic{}, root, from)
				live := target(t, dir)
				_, err := stopping(atomicdir.Atomic{}, "one change fails", n, &reached).Write(root, to)
				if target(t, dir) != live {
					continue
				}
				if reached && !errors.Is(err, errInjected) {
					t.Errorf("Write failing at change %d = %v, want the injected error", n, err)
				}
				checkVolume(t, atomicdir.Atomic{}, dir, from)
			}
		})
	}
}

// TestANewDirectory: what a writer makes in a directory that it need not list is what it would find
// right, and a failure leaves the directory empty.
func TestANewDirectory(t *testing.T) {
	t.Parallel()
	for name, u := range updates() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := u.to.tree(t)
			for n, reached := 0, true; reached; n++ {
				reached = false
				dir, root := newVolume(t)
				_, err := stopping(atomicdir.Atomic{IsNew: true}, "one change fails", n, &reached).Write(root, want)
				if !reached {
					checkVolume(t, atomicdir.Atomic{}, dir, want)
					checkUnchanged(t, atomicdir.Atomic{}, dir, root, want)
					break
				}
				left, listErr := os.ReadDir(dir)
				if !errors.Is(err, errInjected) || len(left) != 0 {
					t.Errorf("Write failing at change %d = %v and leaves %v (%v), want the injected error and nothing", n, err, left, listErr)
				}
			}
		})
	}
}

func target(t *testing.T, dir string) string {
	t.Helper()
	to, err := os.Readlink(filepath.Join(dir, "..data"))
	expect.NoError(t, err)
	return to
}

// TestErrorsSayWhat checks that an error names the step and the thing.
func TestErrorsSayWhat(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		writer     atomicdir.Writer
		op, prefix string
		want       string
	}{
		"writing a file":   {atomicdir.Atomic{}, "write", "a", "write the new files: write a: injected"},
		"the switch":       {atomicdir.Atomic{}, "rename", "..data", "switch to the new files: rename ..data: injected"},
		"a name that goes": {atomicdir.Atomic{}, "remove", "z", "remove old names: remove z: injected"},
		"putting a file":   {atomicdir.Replace{}, "rename", "a", "show the new files: rename a: injected"},
		"rewriting a file": {atomicdir.InPlace{}, "write", "a", "rewrite files in place: write a: injected"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, root := newVolume(t)
			mustWrite(t, test.writer, root, files{"a": "1", "z": "1"}.tree(t))
			failing := atomicdir.WithHook(test.writer, func(op, name string) error {
				if op == test.op && name == test.prefix {
					return errInjected
				}
				return nil
			})
			_, err := failing.Write(root, files{"a": "2"}.tree(t))
			if fmt.Sprint(err) != test.want {
				t.Errorf("Write = %v, want %s", err, test.want)
			}
		})
	}
}
