package update

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// swap shows a version in the way of the kubelet's volumes.
func swap(t *testing.T, dir, text string) {
	t.Helper()
	generation := "..generation-" + text
	if err := os.Mkdir(filepath.Join(dir, generation), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, generation, payloadKey), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	next := filepath.Join(dir, "..data_tmp")
	if err := os.Symlink(generation, next); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, filepath.Join(dir, dataLink)); err != nil {
		t.Fatal(err)
	}
}

func number(n int) string { return fmt.Sprintf("%0*d", versionDigits, n) }

// opened returns eyes that close when the test ends.
func opened(t *testing.T) *eyes {
	t.Helper()
	e, err := newEyes()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

// newVolume makes a volume with version 1 that is watched.
func newVolume(t *testing.T, e *eyes) *volume {
	t.Helper()
	dir := t.TempDir()
	swap(t, dir, number(1))
	if err := os.Symlink(dataLink+"/"+payloadKey, filepath.Join(dir, payloadKey)); err != nil {
		t.Fatal(err)
	}
	v, err := e.watch(dir)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestEyes(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		shown []string
		err   string // Part of the error that is reported; empty for none.
	}{
		"the version that is waited for":     {shown: []string{number(2)}},
		"a later one":                        {shown: []string{number(3)}},
		"one that is older is not enough":    {shown: []string{number(0), number(2)}},
		"a payload without a version":        {shown: []string{"nothing at all"}, err: "invalid syntax"},
		"a payload that is shorter than one": {shown: []string{"7"}, err: "invalid syntax"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, err := newEyes()
			if err != nil {
				t.Fatal(err)
			}
			v, other := newVolume(t, e), newVolume(t, e)
			seen, nothing := e.expect(v, 2), e.expect(other, 2)
			for _, text := range tt.shown {
				swap(t, v.dir, text)
			}
			begin := time.Now()
			at, err := receive(t.Context(), seen, time.Minute)
			if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("error = %v, want %q in it", err, tt.err)
			}
			if late := at.Sub(begin); late > time.Minute {
				t.Errorf("seen after %s", late)
			}
			if err := e.close(); err != nil {
				t.Error(err)
			}
			if _, err := receive(t.Context(), nothing, time.Minute); err == nil || !strings.Contains(err.Error(), "read events") {
				t.Errorf("another volume: error = %v, want that the watching has ended", err)
			}
		})
	}
}

// TestOneDirectory watches volumes that share their files.
func TestOneDirectory(t *testing.T) {
	t.Parallel()
	e := opened(t)
	first := newVolume(t, e)
	second, err := e.watch(first.dir)
	if err != nil {
		t.Fatal(err)
	}
	all := []<-chan sighting{e.expect(first, 2), e.expect(second, 2)}
	swap(t, first.dir, number(2))
	for i, seen := range all {
		if _, err := receive(t.Context(), seen, time.Minute); err != nil {
			t.Errorf("volume %d: %v", i, err)
		}
	}
}

// TestNothingSeen waits for a version that does not come.
func TestNothingSeen(t *testing.T) {
	t.Parallel()
	e := opened(t)
	v := newVolume(t, e)
	seen := e.expect(v, 2)
	swap(t, v.dir, number(0))
	if at, err := receive(t.Context(), seen, 50*time.Millisecond); err == nil {
		t.Errorf("seen at %s, want nothing", at)
	}
}

func TestPayload(t *testing.T) {
	t.Parallel()
	for _, p := range payloads() {
		cm := object("namespace", "name", 42, p.size)
		if got := len(cm.Data[payloadKey]); got != p.size {
			t.Errorf("%s: %d bytes, want %d", p.name, got, p.size)
		}
		if got, err := versionOf(cm); got != 42 || err != nil {
			t.Errorf("%s: version %d, %v, want 42", p.name, got, err)
		}
	}
	if got, err := versionOf(object("namespace", "name", 42, versionDigits)); got != 42 || err != nil {
		t.Errorf("nothing but a version: %d, %v, want 42", got, err)
	}
}

func TestCell(t *testing.T) {
	t.Parallel()
	c := &cell{samples: samples{}, fanOut: 2, payload: payloads()[0]}
	c.begin()
	sent := time.Now()
	after := sent.Add
	c.add(moments{sent, after(5), after(4), after(6), []time.Time{after(9), after(8)}})
	want := samples{
		"floor": {{4}}, "floor-by-link": {{6}}, "answer": {{5}}, "first": {{8}}, "last": {{9}}, "every": {{9, 8}},
		"after-answer": {{4, 3}}, "behind-floor": {{5, 4}}, "beyond": {{5}},
	}
	if diff := cmp.Diff(want, c.samples); diff != "" {
		t.Errorf("samples (-want +got):\n%s", diff)
	}
}
