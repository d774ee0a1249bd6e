package volume

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/liveconfig-csi/liveconfig/pkg/files/atomicdir"
	"github.com/liveconfig-csi/liveconfig/pkg/files/tree"
	"github.com/liveconfig-csi/liveconfig/pkg/files/volumefs"
)

// source is the mount source of the volumes under test.
const source = "volume.test"

// roomy are limits that no test reaches by accident.
func roomy() volumefs.Limits { return volumefs.Limits{Bytes: 64 << 20, Inodes: 10000} }

// policies are the writers that change a live volume, by update policy.
func policies() map[string]atomicdir.Writer {
	return map[string]atomicdir.Writer{
		"Atomic":  atomicdir.Atomic{},
		"Replace": atomicdir.Replace{},
		"InPlace": atomicdir.InPlace{},
	}
}

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

func (v *live) path(name string) string { return filepath.Join(v.target, name) }

func (v *live) usage(t *testing.T) volumefs.Usage {
	t.Helper()
	u, err := v.fs.Usage(v.target)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// bind mounts a file or directory of the volume by itself, read-only, as a runtime does for a subPath.
func (v *live) bind(t *testing.T, name string) string {
	t.Helper()
	at := filepath.Join(t.TempDir(), "subpath")
	info, err := os.Stat(v.path(name))
	if err == nil && info.IsDir() {
		err = os.Mkdir(at, 0o755)
	} else if err == nil {
		err = os.WriteFile(at, nil, 0o600)
	}
	if err := errors.Join(err, bindReadOnly(v.path(name), at)); err != nil {
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

// treeOf makes a tree of files that hold the text and have mode 0644.
func treeOf(t *testing.T, files map[string]string) tree.Tree {
	t.Helper()
	list := make([]tree.File, 0, len(files))
	for p, text := range files {
		list = append(list, tree.File{Path: p, Data: []byte(text), Mode: 0o644})
	}
	made, err := tree.New(list)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// seen maps every path that a user sees in a volume to its kind, mode, owner and content.
type seen map[string]string

func wanted(t tree.Tree) seen {
	s := seen{}
	for _, d := range append(t.Dirs(), ".") {
		s[d] = fmt.Sprintf("%v %d:%d", t.DirMode|fs.ModeDir, t.UID, t.GID)
	}
	for _, f := range t.Files {
		s[f.Path] = fmt.Sprintf("%v %d:%d %s", f.Mode, t.UID, t.GID, f.Data)
	}
	return s
}

// look enters what is at dir/name, following links, and everything below it.
func (s seen) look(dir, name string) error {
	p := filepath.Join(dir, name)
	info, err := os.Stat(p)
	if err != nil {
		return err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fmt.Errorf("no owner for %s", p)
	}
	s[name] = fmt.Sprintf("%v %d:%d", info.Mode(), st.Uid, st.Gid)
	if !info.IsDir() {
		data, err := os.ReadFile(p)
		s[name] += " " + string(data)
		return err
	}
	list, err := os.ReadDir(p)
	if err != nil {
		return err
	}
	for _, d := range list {
		if name == "." && strings.HasPrefix(d.Name(), "..") {
			continue
		}
		if err := s.look(dir, filepath.Join(name, d.Name())); err != nil {
			return err
		}
	}
	return nil
}

// check compares the volume with what was written last.
func (v *live) check(t *testing.T, want tree.Tree) {
	t.Helper()
	got := seen{}
	if err := got.look(v.target, "."); err != nil {
		t.Error(err)
	}
	if w := wanted(want); !maps.Equal(w, got) { // Comparing first is faster by far when there are many files.
		diff := cmp.Diff(w, got)
		t.Errorf("%T: what a user sees (-want +got):\n%.4000s", v.writer, diff)
	}
	list, err := os.ReadDir(v.target)
	if err != nil {
		t.Fatal(err)
	}
	reserved := 0
	for _, d := range list {
		if strings.HasPrefix(d.Name(), "..") {
			reserved++
		}
	}
	// An Atomic keeps ..data and one generation, the others nothing.
	if want := map[bool]int{true: 2, false: 0}[v.isAtomic()]; reserved != want {
		names := slices.DeleteFunc(list, func(d fs.DirEntry) bool { return !strings.HasPrefix(d.Name(), "..") })
		t.Errorf("%T: the volume has %d reserved names, want %d: %v", v.writer, reserved, want, names)
	}
}

func (v *live) isAtomic() bool {
	_, ok := v.writer.(atomicdir.Atomic)
	return ok
}
