package cluster

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestParseAudit(t *testing.T) {
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
		"an empty log has no requests":              {},
		"the zero time means everything":            {log: first + second, want: []Request{received, complete}},
		"a record at the moment itself counts":      {log: first + second, since: at(2000), want: []Request{complete}},
		"the moment is cut to microseconds":         {log: first + second, since: at(2999), want: []Request{complete}},
		"nothing after the last record":             {log: first + second, since: at(3000)},
		"a line that is being written is left out":  {log: first + second[:20], want: []Request{received}},
		"a broken line is an error with its number": {log: first + "{\n", wantErr: "parse line 2 of the audit log"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := parseAudit([]byte(test.log), test.since)
			if (err == nil) != (test.wantErr == "") || err != nil && !strings.Contains(err.Error(), test.wantErr) {
				t.Fatalf("error = %v, want %q", err, test.wantErr)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
		})
	}
}
