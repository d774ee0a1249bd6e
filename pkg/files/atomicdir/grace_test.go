package atomicdir_test

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/liveconfig-csi/liveconfig/pkg/expect"
	"github.com/liveconfig-csi/liveconfig/pkg/files/atomicdir"
	"github.com/liveconfig-csi/liveconfig/pkg/files/tree"
)

// hour is a grace that is not over before a test is.
var hour = atomicdir.Grace{Time: time.Hour, Bytes: 1 << 20}

func wantGenerations(t *testing.T, dir string, want int) {
	t.Helper()
	if got := generations(t, dir); got != want {
		t.Errorf("%d generations, want %d", got, want)
	}
}

func generations(t *testing.T, dir string) int {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "..2*"))
	expect.NoError(t, err)
	return len(found)
}

// TestAReaderOnTheWayFindsTheOldGeneration: a reader that has resolved ..data before the swap opens the file after it. This is rule
// 38. This is fault 5.
func TestAReaderOnTheWayFindsTheOldGeneration(t *testing.T) {
	t.Parallel()
	dir, root := newVolume(t)
	w := atomicdir.Atomic{Grace: hour}
	mustWrite(t, w, root, files{"a": "1"}.tree(t))
	resolved, err := filepath.EvalSymlinks(filepath.Join(dir, "a"))
	expect.NoError(t, err)
	for _, next := range []string{"2", "3"} {
		mustWrite(t, w, root, files{"a": next}.tree(t))
		if got, err := os.ReadFile(resolved); err != nil || string(got) != "1" {
			t.Errorf("after the write of %s the old file holds %q, %v; want 1", next, got, err)
		}
	}
	wantGenerations(t, dir, 3)
	checkUnchanged(t, w, dir, root, files{"a": "3"}.tree(t))
}

func TestAfterItsGraceAGenerationGoes(t *testing.T) {
	t.Parallel()
	dir, root := newVolume(t)
	mustWrite(t, atomicdir.Atomic{Grace: hour}, root, files{"a": "1"}.tree(t))
	mustWrite(t, atomicdir.Atomic{Grace: hour}, root, files{"a": "2"}.tree(t))
	wantGenerations(t, dir, 2)
	<-time.After(50 * time.Millisecond) // The clock of files is behind.
	if mustWrite(t, atomicdir.Atomic{Grace: atomicdir.Grace{Time: time.Nanosecond}}, root, files{"a": "2"}.tree(t)) {
		t.Error("the removal of an old generation counts as a change, but nobody sees it")
	}
	checkVolume(t, atomicdir.Atomic{}, dir, files{"a": "2"}.tree(t))
}

// TestAGraceTakesNoRoom: a generation that only waits for late readers does not stand in the way of a new one.
func TestAGraceTakesNoRoom(t *testing.T) {
	t.Parallel()
	dir, root := newTmpfs(t, "size=64k")
	w := atomicdir.Atomic{Grace: hour}
	var last files
	for _, c := range "123456" {
		last = files{"a": strings.Repeat(string(c), 24<<10)}
		mustWrite(t, w, root, last.tree(t))
	}
	mustWrite(t, atomicdir.Atomic{}, root, last.tree(t))
	checkVolume(t, atomicdir.Atomic{}, dir, last.tree(t))
}

// TestAGraceHasItsPrice: as many generations are kept as there is room for, and always one. A writer that needs another one before
// their grace is over gets an error that names when to try again, and nothing is touched.
func TestAGraceHasItsPrice(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ size, kept int }{
		"room for 3":        {28 << 10, 3},
		"never without one": {200 << 10, 1},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, root := newVolume(t)
			w := atomicdir.Atomic{Grace: atomicdir.Grace{Time: time.Hour, Bytes: 100 << 10}}
			version := func(n int) tree.Tree { return files{"a": strings.Repeat(strconv.Itoa(n), test.size)}.tree(t) }
			for n := range 1 + test.kept {
				mustWrite(t, w, root, version(n))
			}
			first := time.Now()
			before := stamps(t, dir)
			_, err := w.Write(root, version(9))
			early, ok := errors.AsType[*atomicdir.EarlyError](err)
			if !ok {
				t.Fatalf("got %v, want an EarlyError", err)
			}
			if wait := early.Until.Sub(first); wait < 59*time.Minute || wait > 61*time.Minute {
				t.Errorf("it is early for %v, want about an hour", wait)
			}
			checkUntouched(t, dir, before)
			wantGenerations(t, dir, 1+test.kept)
			checkUnchanged(t, w, dir, root, version(test.kept))
		})
	}
}

// TestAWriteAfterItsTimeIsTaken at the moment that the refusal has named.
func TestAWriteAfterItsTimeIsTaken(t *testing.T) {
	t.Parallel()
	dir, root := newVolume(t)
	w := atomicdir.Atomic{Grace: atomicdir.Grace{Time: 2 * time.Second, Bytes: 1}}
	mustWrite(t, w, root, files{"a": "1"}.tree(t))
	mustWrite(t, w, root, files{"a": "2"}.tree(t))
	_, err := w.Write(root, files{"a": "3"}.tree(t))
	early, ok := errors.AsType[*atomicdir.EarlyError](err)
	if !ok {
		t.Fatalf("got %v, want an EarlyError", err)
	}
	<-time.After(time.Until(early.Until))
	mustWrite(t, w, root, files{"a": "3"}.tree(t))
	wantGenerations(t, dir, 2)
}

// TestAGraceBeginsWithTheSwap, and not when the generation that replaces another one was complete: much may lie between.
func TestAGraceBeginsWithTheSwap(t *testing.T) {
	t.Parallel()
	dir, root := newVolume(t)
	w := atomicdir.Atomic{Grace: atomicdir.Grace{Time: time.Second, Bytes: 1 << 20}}
	mustWrite(t, w, root, files{"a": "1"}.tree(t))
	resolved, err := filepath.EvalSymlinks(filepath.Join(dir, "a"))
	expect.NoError(t, err)
	late := func(op, name string) error {
		if op == "rename" && name == "..data" {
			<-time.After(1100 * time.Millisecond) // The node is busy for longer than the grace.
		}
		return nil
	}
	mustWrite(t, atomicdir.WithHook(w, late), root, files{"a": "2"}.tree(t))
	mustWrite(t, w, root, files{"a": "3"}.tree(t))
	if _, err := os.ReadFile(resolved); err != nil {
		t.Errorf("the generation replaced a moment ago is gone: %v", err)
	}
}

// TestARetiredGenerationMakesRoom: one whose grace is over goes when the new one is there, and before that only where it is in
// the way.
func TestARetiredGenerationMakesRoom(t *testing.T) {
	t.Parallel()
	errFull := errors.New("there is no room")
	for name, test := range map[string]struct {
		room  func(generations int) error
		asked []int // How many generations there were.
		want  error
	}{
		"there is room":        {func(int) error { return nil }, []int{2}, nil},
		"it is in the way":     {func(n int) error { return map[bool]error{true: errFull}[n > 1] }, []int{2, 1}, nil},
		"there is none anyway": {func(int) error { return errFull }, []int{2, 1}, errFull},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, root := newVolume(t)
			w := atomicdir.Atomic{Grace: atomicdir.Grace{Time: time.Nanosecond, Bytes: 1 << 20}}
			mustWrite(t, w, root, files{"a": "1"}.tree(t))
			mustWrite(t, w, root, files{"a": "2"}.tree(t))
			<-time.After(50 * time.Millisecond) // The clock of files is behind.
			var asked []int
			w.Room = func() error {
				asked = append(asked, generations(t, dir))
				return test.room(generations(t, dir))
			}
			if _, err := w.Write(root, files{"a": "3"}.tree(t)); !errors.Is(err, test.want) {
				t.Errorf("Write = %v, want %v", err, test.want)
			}
			if diff := cmp.Diff(test.asked, asked); diff != "" {
				t.Errorf("generations when it was asked for room (-want +got):\n%s", diff)
			}
			mustWrite(t, atomicdir.Atomic{}, root, files{"a": "4"}.tree(t))
			checkVolume(t, atomicdir.Atomic{}, dir, files{"a": "4"}.tree(t))
		})
	}
}
