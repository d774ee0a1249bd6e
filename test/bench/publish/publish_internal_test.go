package publish

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/liveconfig-csi/liveconfig/pkg/files/mountns"
)

func TestMain(m *testing.M) { os.Exit(mountns.Main(m)) }

// TestRaw looks that the floor is a volume that a pod could use, and that it goes.
func TestRaw(t *testing.T) {
	t.Parallel()
	target := floorTarget(t.TempDir(), 7)
	content := repeated(1 << 10)
	if err := raw(target, []byte(content)); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(target, fileName))
	if err != nil || string(got) != content {
		t.Errorf("the file has %d bytes (%v), want %d others", len(got), err, len(content))
	}
	if link, err := os.Readlink(filepath.Join(target, fileName)); link != "..data/"+fileName || err != nil {
		t.Errorf("the file's name leads to %q (%v), want into ..data", link, err)
	}
	if err := os.WriteFile(filepath.Join(target, "new"), nil, 0o600); !errors.Is(err, unix.EROFS) {
		t.Errorf("writing gives %v, want %v", err, unix.EROFS)
	}
	if err := raw(target, []byte(content)); !errors.Is(err, unix.EEXIST) {
		t.Errorf("a second volume gives %v, want %v", err, unix.EEXIST)
	}
	if err := drop(target); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(target); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the target is left: %v", err)
	}
}
