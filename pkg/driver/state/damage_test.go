package state_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/liveconfig-csi/liveconfig/pkg/driver/state"
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
			must(t, os.WriteFile(path, damaged, 0o600))
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

// TestSeveralProblemsAreAllReported also proves that something that is not even a file hides nothing.
func TestSeveralProblemsAreAllReported(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir)
	put(t, s, record("v"))
	must(t, os.WriteFile(filepath.Join(dir, "volumes", "a.json"), []byte("{"), 0o600))
	must(t, os.Mkdir(filepath.Join(dir, "volumes", "directory"), 0o700))
	got, err := all(s)
	if len(got) != 1 {
		t.Errorf("Each = %v, want one record", got)
	}
	for _, want := range []string{"a.json", "directory"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Each = %v, want %s named", err, want)
		}
	}
}

// TestNewClearsUnfinishedRecords also proves that the directory's name is taken as it is.
func TestNewClearsUnfinishedRecords(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "st[a-z]te*")
	put(t, open(t, dir), record("v"))
	path := onlyFile(t, dir)
	left := filepath.Join(filepath.Dir(path), "tmp-12345")
	must(t, os.WriteFile(left, []byte(`{"schemaVersion":1,"vol`), 0o600))
	wantRecords(t, open(t, dir), record("v"))
	if got := onlyFile(t, dir); got != path {
		t.Errorf("the file that is left is %s, want %s", got, path)
	}
}

// TestPutThatFailsLeavesNothing makes the rename fail, the last thing that can go wrong.
func TestPutThatFailsLeavesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir)
	put(t, s, record("v"))
	path := onlyFile(t, dir)
	must(t, os.Remove(path))
	must(t, os.MkdirAll(filepath.Join(path, "in the way"), 0o700))
	if err := s.Put(record("v")); err == nil {
		t.Error("Put over a directory = nil, want an error")
	}
	if left := filesBelow(t, dir); len(left) != 0 {
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
	must(t, err)
	return data
}

// replace replaces one text, which must be there.
func replace(data []byte, old, by string) []byte {
	if !strings.Contains(string(data), old) {
		panic(fmt.Sprintf("%s is not in %s", old, data))
	}
	return []byte(strings.Replace(string(data), old, by, 1))
}
