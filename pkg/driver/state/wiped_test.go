package state_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/liveconfig-csi/liveconfig/pkg/driver/state"
)

// TestPutAfterTheDirectoryWasWiped is what a cleaner of /run does to a driver that has been running for days.
// This is fault 20.
func TestPutAfterTheDirectoryWasWiped(t *testing.T) {
	t.Parallel()
	for name, wiped := range map[string]string{"the records' directory": "volumes", "all of it": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "state")
			s := open(t, dir)
			put(t, s, record("before"))
			must(t, os.RemoveAll(filepath.Join(dir, wiped)))
			put(t, s, record("after"))
			wantRecords(t, s, record("after"))
			for _, path := range []string{dir, filepath.Join(dir, "volumes")} {
				if got, want := modeOf(t, path), fs.ModeDir|0o700; got != want {
					t.Errorf("mode of %s = %v, want %v", path, got, want)
				}
			}
		})
	}
}

func TestEnsure(t *testing.T) {
	t.Parallel()
	later := record("v")
	later.Attributes = map[string]string{"secret": "cert"}
	tests := map[string]struct {
		prepare func(t *testing.T, s *state.Store, dir string)
		want    state.Record
	}{
		"no record yet": {
			func(*testing.T, *state.Store, string) {}, later,
		},
		"a record is left alone": {
			func(t *testing.T, s *state.Store, _ string) {
				t.Helper()
				put(t, s, record("v"))
			},
			record("v"),
		},
		"the record of another volume is none": {
			func(t *testing.T, s *state.Store, _ string) {
				t.Helper()
				put(t, s, record("v"))
				must(t, s.Delete("v"))
			},
			later,
		},
		"somebody wiped the directory": {
			func(t *testing.T, s *state.Store, dir string) {
				t.Helper()
				put(t, s, record("v"))
				must(t, os.RemoveAll(dir))
			},
			later,
		},
		"a symbolic link is no record": {
			func(t *testing.T, s *state.Store, dir string) {
				t.Helper()
				put(t, s, record("v"))
				path := onlyFile(t, dir)
				must(t, os.Remove(path))
				must(t, os.Symlink("/etc/hostname", path))
			},
			later,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			s := open(t, dir)
			tt.prepare(t, s, dir)
			if err := s.Ensure(later); err != nil {
				t.Fatalf("Ensure = %v, want no error", err)
			}
			wantRecords(t, s, tt.want)
		})
	}
}

// TestEnsureWritesNothingWhereARecordIs compares the file itself: the same content in another file is a write.
func TestEnsureWritesNothingWhereARecordIs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir)
	put(t, s, record("v"))
	before := stat(t, onlyFile(t, dir))
	must(t, s.Ensure(record("v")))
	if after := stat(t, onlyFile(t, dir)); !os.SameFile(before, after) || !before.ModTime().Equal(after.ModTime()) {
		t.Error("Ensure wrote the record again")
	}
}

func TestEnsureReportsAsPutDoes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir)
	put(t, s, record("v"))
	path := onlyFile(t, dir)
	must(t, os.Remove(path))
	must(t, os.Mkdir(path, 0o700))
	for id, want := range map[string]string{
		"v":     "write the record of volume v: ",
		"a\xff": `write the record of volume "a\xff": the volume ID is not UTF-8`,
	} {
		if err := s.Ensure(record(id)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("Ensure = %v, want %s", err, want)
		}
	}
}

// TestNewClearsWhateverIsCalledTemporary has a directory with files and a pipe.
func TestNewClearsWhateverIsCalledTemporary(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	put(t, open(t, dir), record("v"))
	path := onlyFile(t, dir)
	full := filepath.Join(filepath.Dir(path), "tmp-x")
	must(t, os.MkdirAll(filepath.Join(full, "more"), 0o700))
	must(t, os.WriteFile(filepath.Join(full, "more", "file"), nil, 0o600))
	pipe(t, filepath.Join(filepath.Dir(path), "tmp-y"))
	wantRecords(t, open(t, dir), record("v"))
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 1 {
		t.Errorf("the directory holds %v (%v), want the record and nothing else", entries, err)
	}
}

// TestNewWithALeftOverThatStays: what cannot be removed is in nobody's way.
func TestNewWithALeftOverThatStays(t *testing.T) {
	t.Parallel()
	dir := ordinaryDir(t)
	locked := filepath.Join(dir, "volumes", "tmp-x")
	lock(t, locked)

	s := open(t, dir)
	if !exists(t, filepath.Join(locked, "file")) {
		t.Fatal("the left-over could be removed, so this test shows nothing")
	}
	put(t, s, record("v"))
	wantRecords(t, s, record("v"))
	entries, err := os.ReadDir(filepath.Join(dir, "volumes"))
	if err != nil || len(entries) != 2 {
		t.Errorf("the directory holds %v (%v), want the record and what was there", entries, err)
	}
}

// TestNewReportsADirectoryThatTakesNothing: such a driver would fail at every publish, so it says so at once.
func TestNewReportsADirectoryThatTakesNothing(t *testing.T) {
	t.Parallel()
	dir := ordinaryDir(t)
	lock(t, filepath.Join(dir, "volumes"), "tmp-x")
	const want = "clear the state directory: "
	_, err := state.New(dir)
	if err == nil || !strings.HasPrefix(err.Error(), want) || !strings.Contains(err.Error(), "tmp-x") {
		t.Errorf("New = %v, want %s and what could not be removed", err, want)
	}
}

// TestEachOpensFilesOnly: to open a pipe would wait for its writer, for ever.
func TestEachOpensFilesOnly(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir)
	put(t, s, record("v"))
	volumes := filepath.Dir(onlyFile(t, dir))
	pipe(t, filepath.Join(volumes, "pipe.json"))
	must(t, os.Symlink(filepath.Join(volumes, "pipe.json"), filepath.Join(volumes, "link.json")))
	must(t, os.Mkdir(filepath.Join(volumes, "directory"), 0o700))
	got, err := all(s)
	want := "read record directory: it is not a regular file (d---------)\n" +
		"read record link.json: it is not a regular file (L---------)\n" +
		"read record pipe.json: it is not a regular file (p---------)"
	if err == nil || err.Error() != want {
		t.Errorf("Each = %v, want %s", err, want)
	}
	if diff := gocmp.Diff([]state.Record{record("v")}, got); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
}

// ordinaryDir returns a directory of a user to whom modes apply, who runs the test from here on. Root becomes one for the
// file system only, and on this thread only, to which the test is bound until it ends.
func ordinaryDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if os.Getuid() != 0 {
		return dir
	}
	const nobody = 65534
	for _, d := range []string{filepath.Dir(dir), dir} {
		must(t, os.Chown(d, nobody, nobody))
	}
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
	must(t, syscall.Setfsuid(nobody))
	t.Cleanup(func() {
		if err := syscall.Setfsuid(0); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// lock makes a directory with a file in it that cannot be removed, until the test ends.
func lock(t *testing.T, dir string, names ...string) {
	t.Helper()
	must(t, os.MkdirAll(dir, 0o700))
	for _, name := range append(names, "file") {
		must(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	must(t, os.Chmod(dir, 0o500))
	t.Cleanup(func() {
		if err := os.Chmod(dir, 0o700); err != nil {
			t.Error(err)
		}
	})
}

func pipe(t *testing.T, path string) {
	t.Helper()
	must(t, syscall.Mkfifo(path, 0o600))
}

func exists(t *testing.T, path string) bool {
	t.Helper()
	_, err := os.Lstat(path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return err == nil
}

func stat(t *testing.T, path string) fs.FileInfo {
	t.Helper()
	info, err := os.Lstat(path)
	must(t, err)
	return info
}

func modeOf(t *testing.T, path string) fs.FileMode {
	t.Helper()
	return stat(t, path).Mode()
}
