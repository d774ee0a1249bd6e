package state_test

import (
	"errors"
	"os"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// TestGuardOfARecord counts what a record makes on the heap. It is written while its pod waits.
func TestGuardOfARecord(t *testing.T) { // Not parallel: whatever else is made would be counted.
	const most = 21 // A pool loses what it holds now and then; 19 otherwise.
	s, r := open(t, t.TempDir()), record("v")
	var failed error
	got := testing.AllocsPerRun(100, func() { failed = errors.Join(failed, s.Put(r)) })
	if got > most || failed != nil {
		t.Errorf("a record makes %v objects on the heap (%v), want %v", got, failed, most)
	}
}

// TestGuardSystemCallsOfARecord says by which system calls a record is written: on a disk also those that make it last, and
// in memory none that do nothing.
func TestGuardSystemCallsOfARecord(t *testing.T) {
	t.Parallel()
	if dir, ok := os.LookupEnv(dirVariable); ok {
		putTraced(t, dir)
		return
	}
	inMemory := []string{"openat", "fstatfs", "write", "close", "renameat"}
	onDisk := []string{"openat", "fstatfs", "write", "fsync", "close", "renameat", "openat", "fsync", "close"}
	ordinary := onDisk
	if isTmpfs(t, t.TempDir()) {
		ordinary = inMemory
	}
	tests := map[string]struct {
		mount string
		want  []string
	}{
		"a tmpfs":                     {"tmpfs", inMemory},
		"where temporary files stand": {"", ordinary},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := gocmp.Diff(tt.want, traceOfPut(t, tt.mount)); diff != "" {
				t.Errorf("the system calls of a record (-want +got):\n%s", diff)
			}
		})
	}
}

func isTmpfs(t *testing.T, dir string) bool {
	t.Helper()
	var system unix.Statfs_t
	if err := unix.Statfs(dir, &system); err != nil {
		t.Fatal(err)
	}
	return system.Type == unix.TMPFS_MAGIC
}
