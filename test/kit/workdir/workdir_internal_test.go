package workdir

import (
	"errors"
	"os"
	"testing"
)

func TestNewRemovesTheAbandonedAndNoOther(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	alive, abandoned := makeDirectory(t), makeDirectory(t)
	// This is all that the kernel does for a process that is killed.
	if err := abandoned.lock.Close(); err != nil {
		t.Fatal(err)
	}
	makeDirectory(t)
	if _, err := os.Stat(alive.path); err != nil {
		t.Errorf("the directory of a living owner: %v", err)
	}
	if _, err := os.Stat(abandoned.path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory of a dead owner: error = %v, want that it does not exist", err)
	}
	if err := alive.Remove(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(alive.path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a removed directory: error = %v, want that it does not exist", err)
	}
}

func makeDirectory(t *testing.T) *Dir {
	t.Helper()
	d, err := New("workdir-")
	if err != nil {
		t.Fatal(err)
	}
	return d
}
