package state_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/liveconfig-csi/liveconfig/pkg/driver/state"
	"github.com/liveconfig-csi/liveconfig/pkg/expect"
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
			expect.NoError(t, os.RemoveAll(filepath.Join(dir, wiped)))
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

// TestEnsure: where a record is, not even the same content is written again.
func TestEnsure(t *testing.T) {
	t.Parallel()
	later := record("v")
	later.Attributes = map[string]string{"secret": "cert"}
	tests := map[string]struct {
		prepare func(t *testing.T, s *state.Store, path string) // Of the record of the volume v.
		want    state.Record
	}{
		"a record is left alone": {func(*testing.T, *state.Store, string) {}, record("v")},
		"no record": {func(t *testing.T, s *state.Store, _ string) {
			t.Helper()
			expect.NoError(t, s.Delete("v"))
		}, later},
		"somebody wiped the directory": {func(t *testing.T, _ *state.Store, path string) {
			t.Helper()
			expect.NoError(t, os.RemoveAll(filepath.Dir(path)))
		}, later},
		"a symbolic link is no record": {func(t *testing.T, _ *state.Store, path string) {
			t.Helper()
			expect.NoError(t, os.Remove(path))
			expect.NoError(t, os.Symlink("/etc/hostname", path))
		}, later},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, path := single(t)
			before := stat(t, path)
			tt.prepare(t, s, path)
			expect.NoError(t, s.Ensure(later))
			wantRecords(t, s, tt.want)
			isLeft := os.SameFile(before, stat(t, path)) && before.ModTime().Equal(stat(t, path).ModTime())
			if want := tt.want.Fingerprint() == record("v").Fingerprint(); want && !isLeft {
				t.Error("Ensure wrote the record again")
			}
		})
	}
}

func TestEnsureReportsAsPutDoes(t *testing.T) {
	t.Parallel()
	s, path := single(t)
	expect.NoError(t, os.Remove(path))
	expect.NoError(t, os.Mkdir(path, 0o700))
	for id, want := range map[string]string{
		"v":     "write the record of volume v: ",
		"a\xff": `write the record of volume "a\xff": the volume ID is not UTF-8`,
	} {
		if err := s.Ensure(record(id)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("Ensure = %v, want %s", err, want)
		}
	}
}

// TestNewClearsWhateverIsCalledTemporary: an unfinished record, a directory with files, and a pipe. The directory's name is
// taken as it is.
func TestNewClearsWhateverIsCalledTemporary(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "st[a-z]te*")
	put(t, open(t, dir), record("v"))
	path := onlyFile(t, dir)
	volumes := filepath.Dir(path)
	expect.NoError(t, os.WriteFile(filepath.Join(volumes, "tmp-12345"), []byte(`{"schemaVersion":1,"vol`), 0o600))
	expect.NoError(t, os.MkdirAll(filepath.Join(volumes, "tmp-x", "more"), 0o700))
	expect.NoError(t, os.WriteFile(filepath.Join(volumes, "tmp-x", "more", "file"), nil, 0o600))
	pipe(t, filepath.Join(volumes, "tmp-y"))
	wantRecords(t, open(t, dir), record("v"))
	wantNames(t, volumes, filepath.Base(path))
}

// wantNames checks what is in a directory.
func wantNames(t *testing.T, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	expect.NoError(t, err)
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if !slices.Equal(got, want) {
		t.Errorf("the directory %s holds %q, want %q", dir, got, want)
	}
}

// TestNewWithALeftOverThatStays: what cannot be removed is in nobody's way.
func TestNewWithALeftOverThatStays(t *testing.T) {
	t.Parallel()
	dir := ordinaryDir(t)
	locked := filepath.Join(dir, "volumes", "tmp-x")
	lock(t, locked)

	s := open(t, dir)
	stat(t, filepath.Join(locked, "file")) // Else this test would show nothing.
	put(t, s, record("v"))
	wantRecords(t, s, record("v"))
	stat(t, locked)
}

// TestNewReportsADirectoryThatTakesNothing: such a driver would fail at every publish, so it reports that at once.
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

// TestEachOpensFilesOnly, and reports all problems: to open a pipe would wait for its writer, for ever.
func TestEachOpensFilesOnly(t *testing.T) {
	t.Parallel()
	s, path := single(t)
	volumes := filepath.Dir(path)
	pipe(t, filepath.Join(volumes, "pipe.json"))
	expect.NoError(t, os.Symlink(filepath.Join(volumes, "pipe.json"), filepath.Join(volumes, "link.json")))
	expect.NoError(t, os.Mkdir(filepath.Join(volumes, "directory"), 0o700))
	expect.NoError(t, os.WriteFile(filepath.Join(volumes, "a.json"), []byte("{"), 0o600))
	got, err := all(s)
	want := "read record a.json: unexpected end of JSON input\n" +
		"read record directory: it is not a regular file (d---------)\n" +
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
		expect.NoError(t, os.Chown(d, nobody, nobody))
	}
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
	expect.NoError(t, syscall.Setfsuid(nobody))
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
	expect.NoError(t, os.MkdirAll(dir, 0o700))
	for _, name := range append(names, "file") {
		expect.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	expect.NoError(t, os.Chmod(dir, 0o500))
	t.Cleanup(func() {
		if err := os.Chmod(dir, 0o700); err != nil {
			t.Error(err)
		}
	})
}

func pipe(t *testing.T, path string) {
	t.Helper()
	expect.NoError(t, syscall.Mkfifo(path, 0o600))
}

func stat(t *testing.T, path string) fs.FileInfo {
	t.Helper()
	info, err := os.Lstat(path)
	expect.NoError(t, err)
	return info
}

func modeOf(t *testing.T, path string) fs.FileMode {
	t.Helper()
	return stat(t, path).Mode()
}

// TestCheckLeavesNothing (fault 20): a check leaves no file behind, and creates the directory again if it was removed.
func TestCheckLeavesNothing(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "state")
	s, err := state.New(dir)
	expect.NoError(t, err)
	for range 3 {
		if err := s.Check(); err != nil {
			t.Errorf("Check() = %v, want nil", err)
		}
		wantNames(t, filepath.Join(dir, "volumes"))
		expect.NoError(t, os.RemoveAll(dir))
	}
}

// TestCheckNamesTheObstacle: where the directory should be is a file.
func TestCheckNamesTheObstacle(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, err := state.New(dir)
	expect.NoError(t, err)
	expect.NoError(t, os.Remove(filepath.Join(dir, "volumes")))
	expect.NoError(t, os.WriteFile(filepath.Join(dir, "volumes"), nil, 0o600))
	if err := s.Check(); err == nil || !strings.HasPrefix(err.Error(), "write to the state directory: ") {
		t.Errorf("Check() = %v, want it to fail", err)
	}
}
