package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestAudit(t *testing.T) {
	t.Parallel()
	const (
		first  = `{"auditID":"a","stage":"RequestReceived","stageTimestamp":"2026-01-02T03:04:05.000001Z","verb":"get"}` + "\n"
		second = `{"auditID":"a","stage":"ResponseComplete","stageTimestamp":"2026-01-02T03:04:05.000002Z","verb":"get",` +
			`"responseStatus":{"code":200}}` + "\n"
	)
	at := func(ns int) time.Time { return time.Date(2026, 1, 2, 3, 4, 5, ns, time.UTC) }
	received := Request{ID: "a", Stage: StageReceived, Time: at(1000), Verb: "get"}
	complete := Request{ID: "a", Stage: StageComplete, Time: at(2000), Verb: "get", Code: 200}
	tests := map[string]struct {
		log     string
		since   time.Time
		want    []Request
		wantErr string
	}{
		"an empty log has no requests":                {},
		"the zero time means everything":              {log: first + second, want: []Request{received, complete}},
		"a record at the moment itself counts":        {log: first + second, since: at(2000), want: []Request{complete}},
		"the moment is cut to microseconds":           {log: first + second, since: at(2999), want: []Request{complete}},
		"nothing after the last record":               {log: first + second, since: at(3000)},
		"a line that is being written is left out":    {log: first + second[:20], want: []Request{received}},
		"a broken record is an error with its number": {log: first + "{\n", wantErr: "parse record 2 of the audit log"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var a audit
			err := a.parse([]byte(test.log))
			if (err == nil) != (test.wantErr == "") || err != nil && !strings.Contains(err.Error(), test.wantErr) {
				t.Fatalf("error = %v, want %q", err, test.wantErr)
			}
			if err != nil {
				return
			}
			got := a.since(test.since)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
		})
	}
}

// TestAuditIsReadOn has the API server in the middle of a record whenever somebody asks.
func TestAuditIsReadOn(t *testing.T) {
	t.Parallel()
	const record = `{"auditID":"%d","stageTimestamp":"2026-01-02T03:04:05.%06dZ","verb":"get"}` + "\n"
	path := filepath.Join(t.TempDir(), "audit.log")
	var whole, got string
	for i := range 5 {
		whole += fmt.Sprintf(record, i, i)
	}
	var a audit
	for end := range len(whole) + 1 {
		if err := os.WriteFile(path, []byte(whole[:end]), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := a.readOn(path); err != nil {
			t.Fatal(err)
		}
		if got, want := len(a.since(time.Time{})), strings.Count(whole[:end], "\n"); got != want {
			t.Fatalf("of %d bytes %d records are read, want %d", end, got, want)
		}
	}
	for _, r := range a.since(time.Time{}) {
		got += r.ID
	}
	if want := "01234"; got != want {
		t.Errorf("the records read are %s, want %s", got, want)
	}
	if err := os.WriteFile(path, []byte(whole+"{\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := a.readOn(path); err == nil || !strings.Contains(err.Error(), "record 6") {
			t.Errorf("after a broken record the error is %v, want one that names record 6", err)
		}
	}
}
