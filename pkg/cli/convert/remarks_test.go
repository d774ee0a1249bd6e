package convert

import (
	"slices"
	"testing"
)

// TestRemarks: a text about several volumes is one line, at the first of them.
func TestRemarks(t *testing.T) {
	t.Parallel()
	var all remarks
	all.add("web.yaml:3: Deployment/web", "tls", "note: it needs a Role")
	all.add("web.yaml:5: Deployment/web", "other", "not converted")
	all.add("web.yaml:7: Deployment/web", "db", "note: it needs a Role")
	all.add("web.yaml:7: Deployment/web", "db", "note: it needs a Role")
	var got []string
	for _, r := range all {
		got = append(got, r.String())
	}
	want := []string{
		"web.yaml:3: Deployment/web: volumes tls, db: note: it needs a Role",
		"web.yaml:5: Deployment/web: volume other: not converted",
	}
	if !slices.Equal(got, want) {
		t.Errorf("remarks are %q, want %q", got, want)
	}
}
