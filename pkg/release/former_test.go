package release_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/liveconfig-csi/liveconfig/pkg/release"
)

// TestFormer: the newest contents are kept, and of them the one before is the newest that was not taken back.
func TestFormer(t *testing.T) {
	t.Parallel()
	at := time.Unix(1, 0).UTC()
	stored := func(digest string) release.Stored { return release.Stored{Digest: digest, At: at, Key: digest} }
	reverted := func(digest string) release.Entry {
		return release.Entry{Digest: digest, Outcome: string(release.Reverted), At: at}
	}
	wantBefore := func(f release.Former, digest, want string) {
		t.Helper()
		if got, ok := f.Before(digest); got.Digest != want || ok != (want != "") {
			t.Errorf("before %s = %q, %t, want %q", digest, got.Digest, ok, want)
		}
	}
	var f release.Former
	wantBefore(f, "1", "")
	for _, digest := range []string{"1", "2", "3", "4"} {
		f = f.With(stored(digest))
	}
	if diff := cmp.Diff([]release.Stored{stored("4"), stored("3"), stored("2")}, f.Contents); diff != "" {
		t.Errorf("contents (-want +got):\n%s", diff)
	}
	wantBefore(f, "4", "3")
	f = f.WithEnd(reverted("4")).With(stored("3")) // 4 is taken back.
	wantBefore(f, "3", "2")
	f = f.With(stored("4")) // It is stable after all.
	wantBefore(f, "3", "4")
	for range 20 {
		f = f.WithEnd(reverted("5"))
	}
	if len(f.Ended) != 1 {
		t.Errorf("%d ends of one edit, want 1", len(f.Ended))
	}
	read, err := release.ParseFormer(f.String())
	if diff := cmp.Diff(f, read); diff != "" || err != nil {
		t.Errorf("read again: %v (-want +got):\n%s", err, diff)
	}
	unkept := release.Former{}.With(release.Stored{Digest: "1"}).With(stored("2"))
	wantBefore(unkept, "2", "")
	for _, text := range []string{"{", `{"contents": [{}, {}, {}, {}]}`, strings.Repeat(" ", release.LongestAnnotation+1)} {
		if f, err := release.ParseFormer(text); err == nil || len(f.Contents) > 0 {
			t.Errorf("%.40q is read as %v", text, f)
		}
	}
}
