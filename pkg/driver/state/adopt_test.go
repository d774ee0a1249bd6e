package state_test

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/liveconfig-csi/liveconfig/pkg/driver/state"
)

// TestAdopt puts a record in the place of whatever is no use to anybody (fault 20).
func TestAdopt(t *testing.T) {
	t.Parallel()
	for name, what := range map[string]string{
		"torn":                    `{"schemaVersion": 1, "volumeID": "v", "targ`,
		"empty":                   "",
		"of no schema":            `{"volumeID": "v"}`,
		"of an earlier schema":    `{"schemaVersion": 0, "volumeID": "v"}`,
		"of another volume":       `{"schemaVersion": 1, "volumeID": "w"}`,
		"of a schema that is odd": `{"schemaVersion": "later"}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			s := open(t, dir)
			put(t, s, record("v"))
			must(t, os.WriteFile(onlyFile(t, dir), []byte(what), 0o600))
			if !s.Has("v") {
				t.Error("Has = false for a record that cannot be read, want true")
			}
			adopt(t, s)
			wantRecords(t, s, record("v"))
		})
	}
}

// TestAdoptLeavesALaterSchema: a newer driver that comes back finds what it has written (fault 20).
func TestAdoptLeavesALaterSchema(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir)
	put(t, s, record("v"))
	path := onlyFile(t, dir)
	const later = `{"schemaVersion": 2, "volumeID": "v", "more": ["than", "we", "know"]}`
	must(t, os.WriteFile(path, []byte(later), 0o600))
	adopt(t, s)
	if got := string(read(t, path)); got != later {
		t.Errorf("the record is %q, want %q", got, later)
	}
	put(t, s, record("v")) // The volume is another one: that of the newer driver is gone.
	wantRecords(t, s, record("v"))
}

// TestUnknownFieldsAreNoReasonToLoseARecord: within a schema, fields may be added (fault 20).
func TestUnknownFieldsAreNoReasonToLoseARecord(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir)
	put(t, s, record("v"))
	path := onlyFile(t, dir)
	data := strings.Replace(string(read(t, path)), "{", `{"later": {"a": [1]}, `, 1)
	must(t, os.WriteFile(path, []byte(data), 0o600))
	wantRecords(t, s, record("v"))
}

// TestAdoptOpensFilesOnly: to open a pipe would wait for its writer.
func TestAdoptOpensFilesOnly(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir)
	put(t, s, record("v"))
	path := onlyFile(t, dir)
	must(t, os.Remove(path))
	must(t, syscall.Mkfifo(path, 0o600))
	if s.Has("v") {
		t.Error("Has = true for a pipe, want false")
	}
	adopt(t, s)
	wantRecords(t, s, record("v"))
}

func adopt(t *testing.T, s *state.Store) {
	t.Helper()
	must(t, s.Adopt(record("v")))
}

// must ends the test at an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
