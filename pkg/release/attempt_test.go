package release_test

import (
	"testing"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/release"
)

func TestAttempt(t *testing.T) {
	t.Parallel()
	a := release.Attempt{Digest: "d", Rules: "r", By: "b", Since: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	if got := release.ParseAttempt(a.String()); got != a {
		t.Errorf("an attempt is read as %v, want %v", got, a)
	}
	if !a.IsOf("d", "r") || a.IsOf("d", "s") || a.IsOf("e", "r") {
		t.Errorf("%v is of another candidate, or not of its own", a)
	}
	for _, text := range []string{"", "{", `{"digest": 1}`} {
		if got := release.ParseAttempt(text); got != (release.Attempt{}) || got.IsOf("", "") {
			t.Errorf("%q is read as %v, want none", text, got)
		}
	}
}
