package volume

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/liveconfig-csi/liveconfig/pkg/files/atomicdir"
	"github.com/liveconfig-csi/liveconfig/pkg/files/tree"
	"github.com/liveconfig-csi/liveconfig/pkg/files/volumefs"
)

// source is the mount source of the volumes under test.
const source = "volume.test"

// roomy are limits that no test reaches by accident.
func roomy() volumefs.Limits { return volumefs.Limits{Bytes: 64 << 20, Inodes: 10000} }

// live is a published volume.
type live struct {
	fs     *volumefs.FS
	target string
	writer atomicdir.Writer
}

// publish makes a volume that holds first and mounts it for the length of the test.
func publish(t *testing.T, w atomicdir.Writer, limits volumefs.Limits, first tree.Tree) *live {
	t.Helper()
	root := t.TempDir()
	v := &live{fs: volumefs.New(volumefs.Config{Root: root, Source: source}), target: filepath.Join(root, "mount"), writer: w}
	if err := v.publish(limits, first); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := v.fs.Unmount(v.target); err != nil {
			t.Error(err)
		}
	})
	return v
}

func (v *live) publish(limits volumefs.Limits, first tree.Tree) (err error) {
	view, err := v.fs.Create(limits)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, view.Close()) }()
	if _, err := v.writer.Write(view.Dir, first); err != nil {
		return err
	}
	return view.Publish(v.target)
}

// share mounts the volume on another target as well, for the length of the test.
func (v *live) share(t *testing.T) (target string) {
	t.Helper()
	view, err := v.fs.Open(v.target)
	if err != nil {
		t.Fatal(err)
	}
	defer view.Close()
	target = filepath.Join(filepath.Dir(v.target), fmt.Sprint("share-", rand.Uint64()))
	if _, err := view.Share(v.target, target); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := v.fs.Unmount(target); err != nil {
			t.Error(err)
		}
	})
	return target
}

// write updates the volume as the driver does.
func (v *live) write(next tree.Tree) (err error) {
	view, err := v.fs.Open(v.target)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, view.Close()) }()
	_, err = v.writer.Write(view.Dir, next)
	return err
}

func (v *live) mustWrite(t *testing.T, next tree.Tree) {
	t.Helper()
	if err := v.write(next); err != nil {
		t.Fatal(err)
	}
}

// bind mounts a file of the volume by itself, read-only, as a runtime does for a subPath.
func (v *live) bind(t *testing.T, name string) string {
	t.Helper()
	at := filepath.Join(t.TempDir(), "subpath")
	if err := errors.Join(os.WriteFile(at, nil, 0o600), bindReadOnly(filepath.Join(v.target, name), at)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(at, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return at
}

func bindReadOnly(from, at string) error {
	if err := unix.Mount(from, at, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("bind %s at %s: %w", from, at, err)
	}
	const flags = unix.MS_BIND | unix.MS_REMOUNT | unix.MS_RDONLY | unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	if err := unix.Mount("", at, "", flags, ""); err != nil {
		return fmt.Errorf("make %s read-only: %w", at, err)
	}
	return nil
}
