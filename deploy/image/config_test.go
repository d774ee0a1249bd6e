package main

import (
	"bytes"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

func TestParse(t *testing.T) {
	t.Parallel()
	source, err := filepath.Abs(root)
	must(t, err)
	type want struct {
		source, out, image string
		platforms          []v1.Platform
		push               bool
	}
	amd64, arm64 := v1.Platform{OS: "linux", Architecture: "amd64"}, v1.Platform{OS: "linux", Architecture: "arm64"}
	both := []v1.Platform{amd64, arm64}
	tests := map[string]struct {
		args []string
		want want
	}{
		"nothing": {nil, want{source, filepath.Join(source, "bin/image"), defaultImage, both, false}},
		"everything": {
			[]string{"--source", "/src", "--out", "/tmp/out", "--image", "example.com/a:1", "--platforms", "linux/arm64", "--push"},
			want{"/src", "/tmp/out", "example.com/a:1", []v1.Platform{arm64}, true},
		},
		"output below another checkout": {
			[]string{"--source", "/src", "--out", "x/y"},
			want{"/src", "/src/x/y", defaultImage, both, false},
		},
		"a port is no tag": {
			[]string{"--source", "/src", "--image", "localhost:5000/a:1"},
			want{"/src", "/src/bin/image", "localhost:5000/a:1", both, false},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg, err := parse(tc.args, &bytes.Buffer{})
			must(t, err)
			got := want{cfg.source, cfg.out, cfg.tag.String(), cfg.platforms, cfg.push}
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(want{})); diff != "" {
				t.Errorf("parse(%v) (-want +got):\n%s", tc.args, diff)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		args []string
		want string
	}{
		"an argument":               {[]string{"liveconfig:1"}, "everything is a flag"},
		"an unknown flag":           {[]string{"--tag=1"}, "flag provided but not defined"},
		"an image without a tag":    {[]string{"--image=example.com/a"}, "has no tag"},
		"a port for a tag":          {[]string{"--image=localhost:5000/a"}, "has no tag"},
		"an image by digest":        {[]string{"--image=a@sha256:" + strings.Repeat("0", 64)}, "is not NAME:TAG"},
		"a name in upper case":      {[]string{"--image=A:1"}, "is not NAME:TAG"},
		"a push to nowhere":         {[]string{"--push"}, "names no registry"},
		"no platform":               {[]string{"--platforms="}, "is not linux/ARCHITECTURE"},
		"an architecture":           {[]string{"--platforms=amd64"}, "is not linux/ARCHITECTURE"},
		"a system without an image": {[]string{"--platforms=darwin/arm64"}, "is not linux/ARCHITECTURE"},
		"a variant":                 {[]string{"--platforms=linux/arm/v7"}, "is not linux/ARCHITECTURE"},
		"a platform twice":          {[]string{"--platforms=linux/amd64,linux/amd64"}, "is there twice"},
		"a mistake in the middle":   {[]string{"--platforms=linux/amd64,,linux/arm64"}, "is not linux/ARCHITECTURE"},
	}
	for name, tc := range tests {
		cfg, err := parse(tc.args, &bytes.Buffer{})
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: parse(%v) = %+v, %v, want an error with %q", name, tc.args, cfg, err, tc.want)
		}
	}
}

func TestDefaultImageIsWhatTheManifestsAskFor(t *testing.T) {
	t.Parallel()
	daemonset := readFile(t, filepath.Join(root, "deploy/base/daemonset.yaml"))
	got := regexp.MustCompile(`(?m)^\s+image: "?([^\s"]+)"?$`).FindSubmatch(daemonset)
	if got == nil || string(got[1]) != defaultImage {
		t.Errorf("image in deploy/base = %q, want %s", got, defaultImage)
	}
}

func TestStampOf(t *testing.T) {
	t.Parallel()
	at := func(text string) time.Time {
		when, err := time.Parse(time.RFC3339, text)
		must(t, err)
		return when
	}
	vcs := []debug.BuildSetting{{Key: "vcs.revision", Value: "0123"}, {Key: "vcs.time", Value: committed}}
	tests := map[string]struct {
		version  string
		settings []debug.BuildSetting
		epoch    string
		want     stamp
	}{
		"a commit":                {released, vcs, "", stamp{released, "0123", at(committed)}},
		"another time is asked":   {released, vcs, "60", stamp{released, "0123", at("1970-01-01T00:01:00Z")}},
		"no repository":           {"(devel)", nil, "", stamp{"devel", "", at("1970-01-01T00:00:00Z")}},
		"no repository, but time": {"(devel)", nil, "60", stamp{"devel", "", at("1970-01-01T00:01:00Z")}},
	}
	for name, tc := range tests {
		info := &debug.BuildInfo{Main: debug.Module{Version: tc.version}, Settings: tc.settings}
		got, err := stampOf(info, tc.epoch)
		if err != nil || got != tc.want {
			t.Errorf("%s: stampOf = %+v, %v, want %+v", name, got, err, tc.want)
		}
	}
	if got, err := stampOf(&debug.BuildInfo{}, "yesterday"); err == nil {
		t.Errorf("stampOf with an epoch that is no number = %+v, want an error", got)
	}
}

func TestRunWithoutDriver(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "go.mod"), []byte("module example.com/a\n\ngo 1.26.0\n"))
	writeFile(t, filepath.Join(dir, "cmd/liveconfig-other/main.go"), []byte("package main\n\nfunc main() {}\n"))
	args := []string{"--source", dir, "--platforms", "linux/amd64"}
	err := run(t.Context(), args, func(string) string { return "" }, &bytes.Buffer{}, &bytes.Buffer{})
	if err == nil || !strings.Contains(err.Error(), "makes the program "+entrypoint) {
		t.Errorf("run in a module without the driver = %v, want an error that names %s", err, entrypoint)
	}
}
