package fileset

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestYoungSetsAreReadAgain: a file that changed right before it was read may have changed once more since, with the same stamps.
func TestYoungSetsAreReadAgain(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a")
	if err := os.WriteFile(path, []byte("1"), 0o600); err != nil {
		t.Fatal(err)
	}
	found := snapshotOf(path)
	changed := time.Unix(found.state.ctime.Unix())
	for name, tt := range map[string]struct {
		seen []snapshot
		want bool
	}{
		"read in the same tick":      {[]snapshot{{path, found.state, changed.Add(time.Millisecond)}}, true},
		"read by a clock that lags":  {[]snapshot{{path, found.state, changed.Add(-time.Millisecond)}}, true},
		"one of two":                 {[]snapshot{{path, found.state, changed.Add(time.Second)}, {path, found.state, changed}}, true},
		"read a while after":         {[]snapshot{{path, found.state, changed.Add(2 * tick)}}, false},
		"stamped by another's clock": {[]snapshot{{path, found.state, changed.Add(-time.Hour)}}, false},
		"what is not there":          {[]snapshot{{path: path + "-not"}}, false},
		"changed since it was read":  {[]snapshot{{path: path}}, true},
		"nothing":                    {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := NewWatcher(Config{})
			defer w.close()
			w.Watch(Set{seen: tt.seen})
			if got := len(w.raw) > 0; got != tt.want {
				t.Errorf("notified of a change: %t, want %t", got, tt.want)
			}
		})
	}
}
