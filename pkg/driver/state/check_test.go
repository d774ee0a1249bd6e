package state_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/liveconfig-csi/liveconfig/pkg/driver/state"
)

// TestCheckLeavesNothing, and makes the directory anew that somebody has removed (fault 20).
func TestCheckLeavesNothing(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "state")
	s, err := state.New(dir)
	must(t, err)
	for range 3 {
		if err := s.Check(); err != nil {
			t.Errorf("Check() = %v, want nil", err)
		}
		entries, err := os.ReadDir(filepath.Join(dir, "volumes"))
		if err != nil || len(entries) != 0 {
			t.Errorf("after Check() there is %v, %v, want nothing", entries, err)
		}
		must(t, os.RemoveAll(dir))
	}
}

// TestCheckSaysWhatIsInTheWay: where the directory should be is a file.
func TestCheckSaysWhatIsInTheWay(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, err := state.New(dir)
	must(t, err)
	must(t, os.Remove(filepath.Join(dir, "volumes")))
	must(t, os.WriteFile(filepath.Join(dir, "volumes"), nil, 0o600))
	if err := s.Check(); err == nil || !strings.HasPrefix(err.Error(), "write to the state directory: ") {
		t.Errorf("Check() = %v, want it to fail", err)
	}
}
