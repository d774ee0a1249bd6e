package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// instruction is one of a Dockerfile: its name, and the rest.
type instruction struct{ Name, Text string }

// dockerfile reads the Dockerfile's stages: each begins with its FROM.
func dockerfile(t *testing.T) [][]instruction {
	t.Helper()
	text := regexp.MustCompile(`(?m)^#.*\n`).ReplaceAllString(string(readFile(t, filepath.Join(root, "Dockerfile"))), "")
	text = regexp.MustCompile(`\\\n\s*`).ReplaceAllString(text, "")
	var stages [][]instruction
	for line := range strings.Lines(text) {
		name, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		if name == "" {
			continue
		}
		if name == "FROM" {
			stages = append(stages, nil)
		}
		last := len(stages) - 1
		stages[last] = append(stages[last], instruction{name, rest})
	}
	if len(stages) != 2 {
		t.Fatalf("the Dockerfile has %d stages, want one that builds and one that is the image", len(stages))
	}
	return stages
}

// checkDockerBuild runs what the Dockerfile runs to compile, and compares the programs with those of the image.
func checkDockerBuild(t *testing.T, b built) {
	t.Helper()
	command := ""
	for _, i := range dockerfile(t)[0] {
		if i.Name == "RUN" && strings.Contains(i.Text, "go build") {
			command = regexp.MustCompile(`--mount=\S+\s+`).ReplaceAllString(i.Text, "")
		}
	}
	if !strings.Contains(command, " /out/ ") {
		t.Fatalf("the Dockerfile's build does not write to /out/: %q", command)
	}
	for platform, entries := range b.entries {
		out := t.TempDir()
		cmd := exec.CommandContext(t.Context(), "sh", "-c", strings.Replace(command, " /out/ ", ` "$OUT/" `, 1))
		cmd.Dir = b.checkout
		system, arch, _ := strings.Cut(platform, "/")
		cmd.Env = append(cmd.Environ(), "OUT="+out, "TARGETOS="+system, "TARGETARCH="+arch, "GOFLAGS=-mod=readonly", "GOWORK=off")
		output(t, cmd)
		for _, e := range entries {
			if string(readFile(t, filepath.Join(out, e.Header.Name))) != string(e.Content) {
				t.Errorf("%s for %s is not what the Dockerfile's command makes: %s", e.Header.Name, platform, command)
			}
		}
		made, err := os.ReadDir(out)
		if err != nil || len(made) != len(programs()) {
			t.Errorf("the Dockerfile's command makes %v for %s (%v), want %v", made, platform, err, programs())
		}
	}
}

func TestDockerfileDescribesTheImage(t *testing.T) {
	t.Parallel()
	entry, err := json.Marshal([]string{entrypoint})
	must(t, err)
	want := []instruction{
		{"FROM", "scratch"},
		{"ARG", "VERSION=devel"},
		{"ARG", "REVISION"},
		{"LABEL", ""}, // Compared below.
		{"COPY", "--from=build /out/ /"},
		{"ENTRYPOINT", string(entry)},
	}
	got := dockerfile(t)[1]
	gotLabels := map[string]string{}
	for n, i := range got {
		if i.Name != "LABEL" {
			continue
		}
		for _, match := range regexp.MustCompile(`([^\s=]+)="([^"]*)"`).FindAllStringSubmatch(i.Text, -1) {
			gotLabels[match[1]] = match[2]
		}
		got[n].Text = ""
	}
	wantSame(t, "last stage of the Dockerfile", want, got)
	wantSame(t, "labels of the Dockerfile", labels(stamp{version: "$VERSION", revision: "$REVISION"}), gotLabels)
}

func TestDockerfileBuildsForEveryPlatform(t *testing.T) {
	t.Parallel()
	version := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(string(readFile(t, filepath.Join(root, "go.mod"))))[1]
	want := []instruction{
		{"FROM", "--platform=$BUILDPLATFORM golang:" + version + " AS build"},
		{"ARG", "TARGETOS"},
		{"ARG", "TARGETARCH"},
	}
	wantSame(t, "first stage of the Dockerfile", want, dockerfile(t)[0][:3])
}

// TestDockerContext checks that a container engine sees the checkout as git does. Without its git metadata a build has
// no version; with files missing that git knows, or others added, it is not the commit's.
func TestDockerContext(t *testing.T) {
	t.Parallel()
	var got []string
	for line := range strings.Lines(string(readFile(t, filepath.Join(root, ".dockerignore")))) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			got = append(got, line)
		}
	}
	wantSame(t, ".dockerignore", []string{"bin"}, got)
	if ignored := string(readFile(t, filepath.Join(root, ".gitignore"))); !strings.Contains("\n"+ignored, "\n/bin/\n") {
		t.Errorf(".gitignore does not have /bin/, which .dockerignore leaves out:\n%s", ignored)
	}
}
