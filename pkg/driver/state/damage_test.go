package state_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/liveconfig-csi/liveconfig/pkg/driver/state"
	"github.com/liveconfig-csi/liveconfig/pkg/expect"
)

// TestDamagedRecordsHideNothing puts one unreadable file beside a good record: the record is listed, the file is
// reported, and it is still there afterwards. This is fault 20.
func TestDamagedRecordsHideNothing(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		damage  func(whole []byte) []byte
		wantErr string
	}{
		"a torn record": {
			func(whole []byte) []byte { return whole[:len(whole)/2] },
			": unexpected end of JSON input",
		},
		"an empty file": {
			func([]byte) []byte { return nil },
			": unexpected end of JSON input",
		},
		"a record of a later schema": {
			func(whole []byte) []byte { return replace(whole, `"schemaVersion":1`, `"schemaVersion":2`) },
			": schema version 2 is not 1; it was written by another version of the driver",
		},
		"a record without a schema": {
			func(whole []byte) []byte { return replace(whole, `"schemaVersion":1,`, ``) },
			": schema version 0 is not 1; it was written by another version of the driver",
		},
		"a record of another volume": {
			func(whole []byte) []byte { return replace(whole, `"volumeID":"bad"`, `"volumeID":"good"`) },
			": it names another volume",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			s := open(t, dir)
			put(t, s, record("bad"))
			path := onlyFile(t, dir)
			damaged := tt.damage(read(t, path))
			expect.NoError(t, os.WriteFile(path, damaged, 0o600))
			put(t, s, record("good"))

			got, err := all(open(t, dir))
			want := "read record " + filepath.Base(path) + tt.wantErr
			if err == nil || err.Error() != want {
				t.Errorf("Each = %v, want %s", err, want)
			}
			if diff := gocmp.Diff([]state.Record{record("good")}, got); diff != "" {
				t.Errorf("records (-want +got):\n%s", diff)
			}
			if diff := gocmp.Diff(string(damaged), string(read(t, path))); diff != "" {
				t.Errorf("the unreadable record after Each (-want +got):\n%s", diff)
			}
		})
	}
}

// TestPutThatFailsLeavesNothing makes the rename fail, the last thing that can go wrong.
func TestPutThatFailsLeavesNothing(t *testing.T) {
	t.Parallel()
	s, path := single(t)
	expect.NoError(t, os.Remove(path))
	expect.NoError(t, os.MkdirAll(filepath.Join(path, "in the way"), 0o700))
	if err := s.Put(record("v")); err == nil {
		t.Error("Put over a directory = nil, want an error")
	}
	if left := filesBelow(t, filepath.Dir(path)); len(left) != 0 {
		t.Errorf("a Put that failed left %v, want nothing", left)
	}
}

// TestReadersSeeWholeRecords lists without pause while records are replaced, deleted and put again. This is fault 19.
func TestReadersSeeWholeRecords(t *testing.T) {
	t.Parallel()
	const writers, rounds = 3, 30
	dir := t.TempDir()
	s := open(t, dir)
	version := func(writer, n int) state.Record {
		r := record(fmt.Sprintf("volume-%d", writer))
		r.Attributes = map[string]string{"n": fmt.Sprint(n), "fill": strings.Repeat(fmt.Sprint(n), 100*(n%20))}
		return r
	}
	var running sync.WaitGroup
	for w := range writers {
		running.Go(func() {
			for n := range rounds {
				if err := s.Put(version(w, n)); err != nil {
					t.Errorf("Put = %v, want no error", err)
				}
				if n%10 != 9 {
					continue
				}
				if err := s.Delete(fmt.Sprintf("volume-%d", w)); err != nil {
					t.Errorf("Delete = %v, want no error", err)
				}
			}
		})
	}
	defer running.Wait()
	done := make(chan struct{})
	go func() {
		running.Wait()
		close(done)
	}()
	for seen := 0; ; {
		records, err := all(s)
		if err != nil {
			t.Fatalf("Each = %v, want no error", err)
		}
		for _, r := range records {
			var writer, n int
			_, err := fmt.Sscan(strings.TrimPrefix(r.VolumeID, "volume-")+" "+r.Attributes["n"], &writer, &n)
			if err != nil || r.Fingerprint() != version(writer, n).Fingerprint() {
				t.Fatalf("Each has %v, which nobody put", r)
			}
			seen++
		}
		select {
		case <-done:
			if seen == 0 {
				t.Error("Each never saw a record")
			}
			return
		default:
		}
	}
}

func TestSame(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		change func(*state.Record)
		want   bool
	}{
		"nothing":                     {func(*state.Record) {}, true},
		"the group's address":         {func(r *state.Record) { r.FSGroup = new(0) }, true},
		"the volume ID":               {func(r *state.Record) { r.VolumeID = "w" }, false},
		"the target":                  {func(r *state.Record) { r.TargetPath += "/" }, false},
		"a value":                     {func(r *state.Record) { r.Attributes = map[string]string{"configMap": "w", "items": ""} }, false},
		"no attributes":               {func(r *state.Record) { r.Attributes = nil }, false},
		"one attribute more":          {func(r *state.Record) { r.Attributes["uid"] = "" }, false},
		"the pod's namespace":         {func(r *state.Record) { r.Pod.Namespace = "x" }, false},
		"the pod's name":              {func(r *state.Record) { r.Pod.Name = "x" }, false},
		"the pod's UID":               {func(r *state.Record) { r.Pod.UID = "x" }, false},
		"the pod's service account":   {func(r *state.Record) { r.Pod.ServiceAccount = "x" }, false},
		"no group, where zero is one": {func(r *state.Record) { r.FSGroup = nil }, false},
		"another group":               {func(r *state.Record) { r.FSGroup = new(1) }, false},
	}
	for name, tt := range tests {
		t.Run(name+" changed", func(t *testing.T) {
			t.Parallel()
			a, b := record("v"), record("v")
			tt.change(&b)
			if got := a.Fingerprint() == b.Fingerprint(); got != tt.want {
				t.Errorf("the fingerprints are the same: %t, want %t", got, tt.want)
			}
		})
	}
	none, empty := record("v"), record("v")
	none.Attributes, empty.Attributes = nil, map[string]string{}
	if none.Fingerprint() != empty.Fingerprint() {
		t.Error("no and empty attributes have different fingerprints, want the same: a record on disk does not tell them apart")
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	expect.NoError(t, err)
	return data
}

// replace replaces one text, which must be there.
func replace(data []byte, old, by string) []byte {
	if !strings.Contains(string(data), old) {
		panic(fmt.Sprintf("%s is not in %s", old, data))
	}
	return []byte(strings.Replace(string(data), old, by, 1))
}

// TestAdopt (fault 20) replaces an unreadable record.
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
			s, path := single(t)
			expect.NoError(t, os.WriteFile(path, []byte(what), 0o600))
			if !s.Has("v") {
				t.Error("Has = false for a record that cannot be read, want true")
			}
			expect.NoError(t, s.Adopt(record("v")))
			wantRecords(t, s, record("v"))
		})
	}
}

// TestAdoptLeavesALaterSchema: a newer driver that comes back finds what it has written (fault 20).
func TestAdoptLeavesALaterSchema(t *testing.T) {
	t.Parallel()
	s, path := single(t)
	const later = `{"schemaVersion": 2, "volumeID": "v", "more": ["than", "we", "know"]}`
	expect.NoError(t, os.WriteFile(path, []byte(later), 0o600))
	expect.NoError(t, s.Adopt(record("v")))
	if got := string(read(t, path)); got != later {
		t.Errorf("the record is %q, want %q", got, later)
	}
	put(t, s, record("v")) // The volume is another one: that of the newer driver is gone.
	wantRecords(t, s, record("v"))
}

// TestUnknownFieldsAreNoReasonToLoseARecord: within a schema, fields may be added (fault 20).
func TestUnknownFieldsAreNoReasonToLoseARecord(t *testing.T) {
	t.Parallel()
	s, path := single(t)
	data := strings.Replace(string(read(t, path)), "{", `{"later": {"a": [1]}, `, 1)
	expect.NoError(t, os.WriteFile(path, []byte(data), 0o600))
	wantRecords(t, s, record("v"))
}

// TestAdoptOpensFilesOnly: to open a pipe would wait for its writer.
func TestAdoptOpensFilesOnly(t *testing.T) {
	t.Parallel()
	s, path := single(t)
	expect.NoError(t, os.Remove(path))
	expect.NoError(t, syscall.Mkfifo(path, 0o600))
	if s.Has("v") {
		t.Error("Has = true for a pipe, want false")
	}
	expect.NoError(t, s.Adopt(record("v")))
	wantRecords(t, s, record("v"))
}
