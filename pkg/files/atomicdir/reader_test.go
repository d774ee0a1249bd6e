package atomicdir_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/liveconfig-csi/liveconfig/pkg/expect"
	"github.com/liveconfig-csi/liveconfig/pkg/files/atomicdir"
	"github.com/liveconfig-csi/liveconfig/pkg/files/tree"
)

// generation is a set of files that all hold n. The file odd exists in every second one.
func generation(t testing.TB, n int) tree.Tree {
	t.Helper()
	f := files{}
	for i := range 8 {
		f[fmt.Sprintf("file%d", i)] = fmt.Sprint(n)
		f[fmt.Sprintf("dir/sub%d/file", i)] = fmt.Sprint(n)
	}
	if n%2 == 1 {
		f["odd"] = fmt.Sprint(n)
	}
	return f.tree(t)
}

// readers run beside a writer until each has done its work often enough.
type readers struct {
	dir  string
	wg   sync.WaitGroup
	left atomic.Int32
}

// start runs read until it was of use rounds times; read reports whether it was, and an error is a failed test. All
// readers go on until the last one is done.
func (r *readers) start(t *testing.T, rounds int, read func() (useful bool, err error)) {
	t.Helper()
	r.left.Add(1)
	r.wg.Go(func() {
		for done := 0; r.left.Load() > 0; {
			useful, err := read()
			if err != nil {
				t.Error(err)
			}
			if useful {
				done++
			}
			if done == rounds || err != nil {
				r.left.Add(-1)
				done = rounds + 1
			}
		}
	})
}

// readOnlyView mounts dir read-only on another directory, which is how containers see a volume.
func readOnlyView(t *testing.T, dir string) string {
	t.Helper()
	view := t.TempDir()
	expect.NoError(t, unix.Mount(dir, view, "", unix.MS_BIND, ""))
	t.Cleanup(func() { _ = unix.Unmount(view, unix.MNT_DETACH) })
	expect.NoError(t, unix.Mount("", view, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY|unix.MS_NOATIME, ""))
	return view
}

// TestReaders writes new files over and over while users read them in every way. This is fault 5.
func TestReaders(t *testing.T) {
	t.Parallel()
	dir, root := newVolume(t)
	mustWrite(t, atomicdir.Atomic{}, root, generation(t, 0))
	r := &readers{dir: readOnlyView(t, dir)}
	r.start(t, 300, r.readOneSet)
	r.start(t, 3000, r.openListed)
	r.start(t, 3000, r.openKnown)
	n := 0
	for ; r.left.Load() > 0; n++ {
		mustWrite(t, atomicdir.Atomic{}, root, generation(t, n))
	}
	r.wg.Wait()
	t.Logf("%d updates", n)
}

// readOneSet reads all files through one open ..data directory: they must be of one update, unless the directory was
// removed meanwhile.
func (r *readers) readOneSet() (complete bool, err error) {
	data, err := os.OpenRoot(filepath.Join(r.dir, "..data"))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer data.Close()
	seen := map[string]bool{}
	for i := range 8 {
		for _, name := range []string{fmt.Sprintf("file%d", i), fmt.Sprintf("dir/sub%d/file", i)} {
			bytes, err := data.ReadFile(name)
			if errors.Is(err, fs.ErrNotExist) {
				return false, nil
			}
			if err != nil {
				return false, err
			}
			seen[string(bytes)] = true
		}
	}
	if len(seen) != 1 {
		return false, fmt.Errorf("files of several updates in one directory: %v", seen)
	}
	return true, nil
}

// openListed opens every name that is listed. A name may go between the two, but no link may stay that leads nowhere.
func (r *readers) openListed() (useful bool, err error) {
	list, err := os.ReadDir(r.dir)
	if err != nil {
		return false, err
	}
	for _, d := range list {
		if strings.HasPrefix(d.Name(), "..") {
			continue
		}
		if err := r.openLink(filepath.Join(r.dir, d.Name())); err != nil {
			return false, err
		}
	}
	return true, nil
}

func (r *readers) openLink(name string) error {
	var before, after unix.Stat_t
	gone := unix.Lstat(name, &before) != nil
	_, err := os.Stat(name)
	gone = gone || unix.Lstat(name, &after) != nil || before.Ino != after.Ino
	if err != nil && !gone {
		return fmt.Errorf("a link that was there all the time could not be opened: %w", err)
	}
	return nil
}

// openKnown opens names that are in every update.
func (r *readers) openKnown() (useful bool, err error) {
	for i := range 8 {
		if _, err := os.ReadFile(filepath.Join(r.dir, fmt.Sprintf("file%d", i))); err != nil {
			return false, err
		}
	}
	return true, nil
}
