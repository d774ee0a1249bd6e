package atomicdir_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/atomicdir"
)

// hour is a grace that is not over before a test is.
var hour = atomicdir.Grace{Time: time.Hour, Bytes: 1 << 20}

// generations returns how many directories of the root look like one.
func generations(t *testing.T, dir string) int {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "..2*"))
	if err != nil {
		t.Fatal(err)
	}
	return len(found)
}

// TestAReaderOnTheWayFindsTheOldGeneration: who has resolved ..data before the swap opens the file after it. This is rule
// 38.
func TestAReaderOnTheWayFindsTheOldGeneration(t *testing.T) {
	t.Parallel()
	dir, root := newVolume(t)
	w := atomicdir.Atomic{Grace: hour}
	mustWrite(t, w, root, files{"a": "1"}.tree(t))
	resolved, err := filepath.EvalSymlinks(filepath.Join(dir, "a"))
	if err != nil {
		t.Fatal(err)
	}
	for _, next := range []string{"2", "3"} {
		mustWrite(t, w, root, files{"a": next}.tree(t))
		if got, err := os.ReadFile(resolved); err != nil || string(got) != "1" {
			t.Errorf("after the write of %s the old file holds %q, %v; want 1", next, got, err)
		}
	}
	if got := generations(t, dir); got != 3 {
		t.Errorf("%d generations, want 3", got)
	}
	if mustWrite(t, w, root, files{"a": "3"}.tree(t)) {
		t.Error("the same files again count as a change")
	}
	if got := generations(t, dir); got != 3 {
		t.Errorf("%d generations after a write that changes nothing, want 3", got)
	}
}

func TestAfterItsGraceAGenerationGoes(t *testing.T) {
	t.Parallel()
	dir, root := newVolume(t)
	mustWrite(t, atomicdir.Atomic{Grace: hour}, root, files{"a": "1"}.tree(t))
	mustWrite(t, atomicdir.Atomic{Grace: hour}, root, files{"a": "2"}.tree(t))
	if got := generations(t, dir); got != 2 {
		t.Errorf("%d generations, want 2", got)
	}
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

// TestAGraceHasItsPrice: large generations are not kept in any number, but one always is.
func TestAGraceHasItsPrice(t *testing.T) {
	t.Parallel()
	dir, root := newVolume(t)
	w := atomicdir.Atomic{Grace: atomicdir.Grace{Time: time.Hour, Bytes: 100 << 10}}
	for _, c := range "123456" {
		mustWrite(t, w, root, files{"a": strings.Repeat(string(c), 28<<10)}.tree(t))
	}
	if got := generations(t, dir); got != 1+3 {
		t.Errorf("%d generations of 32 KiB for 100 KiB, want the live one and 3", got)
	}
	for _, c := range "123" {
		mustWrite(t, w, root, files{"a": strings.Repeat(string(c), 200<<10)}.tree(t))
	}
	if got := generations(t, dir); got != 1+1 {
		t.Errorf("%d generations of 200 KiB for 100 KiB, want the live one and 1", got)
	}
}

// TestAGraceBeginsWithTheSwap, and not when the generation that replaces another one was complete: much may lie between.
func TestAGraceBeginsWithTheSwap(t *testing.T) {
	t.Parallel()
	dir, root := newVolume(t)
	w := atomicdir.Atomic{Grace: atomicdir.Grace{Time: time.Second, Bytes: 1 << 20}}
	mustWrite(t, w, root, files{"a": "1"}.tree(t))
	resolved, err := filepath.EvalSymlinks(filepath.Join(dir, "a"))
	if err != nil {
		t.Fatal(err)
	}
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
