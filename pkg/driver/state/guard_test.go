package state_test

import (
	"errors"
	"os"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
)

// TestGuardOfARecord counts what a record makes on the heap. It is written while its pod waits.
func TestGuardOfARecord(t *testing.T) { // Not parallel: whatever else is made would be counted.
	const most = 21 // 19, and more when a pool is empty: the race detector empties some at random.
	s, r := open(t, t.TempDir()), record("v")
	var failed error
	got := testing.AllocsPerRun(100, func() { failed = errors.Join(failed, s.Put(r)) })
	if got > most || failed != nil {
		t.Errorf("a record makes %v objects on the heap (%v), want %v", got, failed, most)
	}
}

// TestGuardSystemCallsOfARecord shows that a record is on the disk before it gets its name, and the
// name before the publish goes on.
func TestGuardSystemCallsOfARecord(t *testing.T) {
	t.Parallel()
	if dir, ok := os.LookupEnv(dirVariable); ok {
		putTraced(t, dir)
		return
	}
	want := []string{"openat", "write", "fsync", "close", "renameat", "openat", "fsync", "close"}
	if diff := gocmp.Diff(want, traceOfPut(t)); diff != "" {
		t.Errorf("the system calls of a record (-want +got):\n%s", diff)
	}
}
