package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/liveconfig-csi/liveconfig/test/bench/report"
)

func TestParse(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		args    []string
		parts   []string
		volumes []int
		err     string
	}{
		"some parts":         {parts: []string{"update", "publish"}, volumes: []int{1, 10, 110}, args: []string{"--only=update,publish"}},
		"some volumes":       {parts: []string{"idle"}, volumes: []int{1, 4}, args: []string{"--only=idle", "--volumes=1,4"}},
		"a part there isn't": {args: []string{"--only=update,uptade"}, err: `no part "uptade"`},
		"volumes by name":    {args: []string{"--volumes=many"}, err: "--volumes"},
		"another flag":       {args: []string{"--fast"}, err: "not defined"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := parse(tt.args)
			if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Fatalf("error = %v, want %q in it", err, tt.err)
			}
			if tt.err != "" {
				return
			}
			if diff := cmp.Diff(tt.parts, got.parts); diff != "" {
				t.Errorf("parts (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.volumes, got.volumes); diff != "" {
				t.Errorf("volumes (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseNothing(t *testing.T) {
	t.Parallel()
	got, err := parse(nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := len(got.parts), len(parts()); got != want {
		t.Errorf("%d parts are measured by default, want all %d", got, want)
	}
}

func TestRemark(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		text   string
		parts  int // That are measured; zero for all.
		remark string
		said   string
		err    string
	}{
		"one about a target":       {text: "a: The kernel does.\n", remark: "The kernel does."},
		"none":                     {text: "# Nothing yet.\n{}\n"},
		"one about no target":      {text: "b: The kernel does.\n", said: "targets that there are not: b\n"},
		"one of another part":      {text: "b: The kernel does.\n", parts: 1},
		"two about the same thing": {text: "a: One.\na: Two.\n", err: "already set"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o, err := parse([]string{"--repo=" + t.TempDir()})
			if err != nil {
				t.Fatal(err)
			}
			if tt.parts > 0 {
				o.parts = o.parts[:tt.parts]
			}
			path := filepath.Join(o.repo, remarks)
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(tt.text), 0o600); err != nil {
				t.Fatal(err)
			}
			var said bytes.Buffer
			result := report.Result{Targets: []report.Target{{Key: "a", What: "an update"}}}
			err = remark(result, o, &said)
			if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Fatalf("error = %v, want %q in it", err, tt.err)
			}
			if got := result.Targets[0].Remark; got != tt.remark {
				t.Errorf("the target's remark is %q, want %q", got, tt.remark)
			}
			if got := said.String(); !strings.HasSuffix(got, tt.said) || (got == "") != (tt.said == "") {
				t.Errorf("said %q, want %q at its end", got, tt.said)
			}
		})
	}
}

// TestRemarks looks that those of the checkout can be read.
func TestRemarks(t *testing.T) {
	t.Parallel()
	o, err := parse([]string{"--repo=../.."})
	if err != nil {
		t.Fatal(err)
	}
	if err := remark(report.Result{}, o, &bytes.Buffer{}); err != nil {
		t.Error(err)
	}
}
