package narrator

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestCompare(t *testing.T) {
	t.Parallel()
	ours := []Took{{"an edit", 3100 * time.Microsecond}, {"a slow edit", 5 * time.Second}}
	tests := map[string]struct {
		colors bool
		want   []string
	}{
		"a file has no colors": {false, []string{
			"    an edit                          3.1 ms  |\n", "    a slow edit                   5000.0 ms  ##\n",
			"    the kubelet                        60 s  " + strings.Repeat("#", 30) + "\n",
		}},
		"a terminal has colors": {true, []string{"3.1 ms  \x1b[32m|\x1b[0m\n", "\x1b[33m" + strings.Repeat("#", 30) + "\x1b[0m\n"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out strings.Builder
			Narrator{Out: &out, Colors: tc.colors}.Compare(ours, Took{"the kubelet", time.Minute})
			for _, want := range tc.want {
				if !strings.Contains(out.String(), want) {
					t.Errorf("the bars do not have %q:\n%s", want, out.String())
				}
			}
		})
	}
}

func TestAFileHasNoColors(t *testing.T) {
	t.Parallel()
	file, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	if HasColors(file) || HasColors(&strings.Builder{}) {
		t.Error("a file or a buffer is called a terminal")
	}
}
