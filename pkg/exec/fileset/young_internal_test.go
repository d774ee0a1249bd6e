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
	found := sightOf(path)
	changed := time.Unix(found.state.ctime.Unix())
	for name, tt := range map[string]struct {
		seen []sight
		want bool
	}{
		"read in the same tick":      {[]sight{{path, found.state, changed.Add(time.Millisecond)}}, true},
		"read by a clock that lags":  {[]sight{{path, found.state, changed.Add(-time.Millisecond)}}, true},
		"one of two":                 {[]sight{{path, found.state, changed.Add(time.Second)}, {path, found.state, changed}}, true},
		"read a while after":         {[]sight{{path, found.state, changed.Add(2 * tick)}}, false},
		"stamped by another's clock": {[]sight{{path, found.state, changed.Add(-time.Hour)}}, false},
		"what is not there":          {[]sight{{path: path + "-not"}}, false},
		"changed since it was read":  {[]sight{{path: path}}, true},
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
