package state_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/state"
	"github.com/liveconfig-csi/liveconfig/pkg/expect"
)

// record returns a record with everything set.
func record(volumeID string) state.Record {
	return state.Record{
		VolumeID:   volumeID,
		TargetPath: "/var/lib/kubelet/pods/uid/volumes/kubernetes.io~csi/config/mount",
		Attributes: map[string]string{"configMap": "web", "items": "- {key: a, path: \"b\\u0000\"}\n"},
		Pod:        api.Pod{Namespace: "default", Name: "web-0", UID: "uid", ServiceAccount: "runner"},
		FSGroup:    new(0),
	}
}

// open returns a store over dir.
func open(t *testing.T, dir string) *state.Store {
	t.Helper()
	s, err := state.New(dir)
	if err != nil {
		t.Fatalf("New = %v, want no error", err)
	}
	return s
}

func put(t *testing.T, s *state.Store, records ...state.Record) {
	t.Helper()
	for _, r := range records {
		if err := s.Put(r); err != nil {
			t.Fatalf("Put(%.40q) = %v, want no error", r.VolumeID, err)
		}
	}
}

// all returns every record that can be read.
func all(s *state.Store) (records []state.Record, err error) {
	err = s.Each(func(r state.Record) { records = append(records, r) })
	return records, err
}

// wantRecords checks which records there are, in any order, and that all can be read.
func wantRecords(t *testing.T, s *state.Store, want ...state.Record) {
	t.Helper()
	got, err := all(s)
	expect.NoError(t, err)
	byID := cmpopts.SortSlices(func(a, b state.Record) bool { return a.VolumeID < b.VolumeID })
	if diff := gocmp.Diff(want, got, byID, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
}

// onlyFile returns the path of the one file of the store below dir.
func onlyFile(t *testing.T, dir string) string {
	t.Helper()
	files := filesBelow(t, dir)
	if len(files) != 1 {
		t.Fatalf("the store's files are %v, want one", files)
	}
	return files[0]
}

// filesBelow returns the paths of everything below dir that is not a directory.
func filesBelow(t *testing.T, dir string) []string {
	t.Helper()
	var files []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			files = append(files, path)
		}
		return err
	})
	expect.NoError(t, err)
	return files
}

func TestRecordsOutliveTheStore(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	bare := state.Record{VolumeID: "bare", TargetPath: "/t"}
	put(t, open(t, dir), record("full"), bare)
	wantRecords(t, open(t, dir), bare, record("full"))
}

func TestPutReplaces(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir)
	later := record("v")
	later.Attributes, later.FSGroup = map[string]string{"secret": "cert"}, nil
	put(t, s, record("v"), later)
	wantRecords(t, s, later)
	onlyFile(t, dir)
}

func TestDelete(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir)
	put(t, s, record("a"), record("b"))
	for range 2 { // The second time there is nothing to delete, which is no error.
		if err := s.Delete("a"); err != nil {
			t.Fatalf("Delete = %v, want no error", err)
		}
	}
	wantRecords(t, s, record("b"))
	onlyFile(t, dir)
}

func TestNothingButTheOwnerMayRead(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "not", "there", "yet")
	put(t, open(t, dir), record("v"))
	modes := map[string]fs.FileMode{
		dir:                           fs.ModeDir | 0o700,
		filepath.Join(dir, "volumes"): fs.ModeDir | 0o700,
		onlyFile(t, dir):              0o600,
	}
	for path, want := range modes {
		if got := modeOf(t, path); got != want {
			t.Errorf("mode of %s = %v, want %v", path, got, want)
		}
	}
}

// TestVolumeIDsStayInTheDirectory stores records under names that try to get out, all in one store.
func TestVolumeIDsStayInTheDirectory(t *testing.T) {
	t.Parallel()
	outer := t.TempDir()
	dir := filepath.Join(outer, "a", "b", "c")
	s := open(t, dir)
	ids := []string{
		"../../x", "/etc/passwd", "..", ".", "", "a/b", "a\\b", "a", "A", "tmp-1", "x.json", "\x01\x7f\n\t\"'`$(id)",
		"é", "e\u0301", strings.Repeat("long", 2560), "nul\x00byte",
	}
	want := make([]state.Record, 0, len(ids))
	for _, id := range ids {
		want = append(want, record(id))
	}
	put(t, s, want...)
	wantRecords(t, s, want...)
	files := filesBelow(t, outer)
	for _, file := range files {
		if filepath.Dir(file) != filepath.Join(dir, "volumes") {
			t.Errorf("a record was written to %s, want it in %s", file, dir)
		}
	}
	if len(files) != len(ids) {
		t.Errorf("%d volumes have %d files, want one each", len(ids), len(files))
	}
	for _, id := range ids {
		if err := s.Delete(id); err != nil {
			t.Errorf("Delete(%.40q) = %v, want no error", id, err)
		}
	}
	wantRecords(t, s)
	if left := filesBelow(t, outer); len(left) != 0 {
		t.Errorf("after every Delete there is %v, want nothing", left)
	}
}

func TestPutRefusesAnIDThatWouldNotBeFoundAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const want = `write the record of volume "a\xff": the volume ID is not UTF-8`
	if err := open(t, dir).Put(record("a\xff")); err == nil || err.Error() != want {
		t.Errorf("Put = %v, want %s", err, want)
	}
	if left := filesBelow(t, dir); len(left) != 0 {
		t.Errorf("Put left %v, want nothing", left)
	}
}

func TestErrorsNameWhatWasDone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir)
	expect.NoError(t, os.RemoveAll(dir))
	if err := os.WriteFile(dir, nil, 0o600); err != nil { // Not a directory: every access fails with ENOTDIR.
		t.Fatal(err)
	}
	_, newErr := state.New(dir)
	_, listErr := all(s)
	for want, err := range map[string]error{
		"create the state directory: ":      newErr,
		"list records: ":                    listErr,
		"write the record of volume v: ":    s.Put(record("v")),
		"remove the record of volume bad: ": s.Delete("bad"),
	} {
		var pathErr *fs.PathError
		if err == nil || !strings.HasPrefix(err.Error(), want) || !errors.As(err, &pathErr) {
			t.Errorf("error = %v, want %s and the cause", err, want)
		}
	}
}

// single returns a store with the record of one volume, and the path of its file.
func single(t *testing.T) (s *state.Store, path string) {
	t.Helper()
	dir := t.TempDir()
	s = open(t, dir)
	put(t, s, record("v"))
	return s, onlyFile(t, dir)
}
