package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
)

const (
	root     = "../.."
	released = "v1.2.3"
	// committed is when the fixture's only commit was made.
	committed = "2026-01-02T03:04:05Z"
)

// It is a second program beside the driver, which prints the version of pkg/daemon/version.
const tell = `package main

import "github.com/liveconfig-csi/liveconfig/pkg/daemon/version"

func main() { print(version.Version()) }
`

func programs() []string {
	return []string{"liveconfig-controller", "liveconfig-driver", "liveconfig-exec", "liveconfig-reload", "liveconfig-tell"}
}

// newCheckout makes a git repository of the sources as they are, with a second program, all committed and tagged.
func newCheckout(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "checkout")
	for _, folder := range []string{"cmd", "pkg"} {
		must(t, os.CopyFS(filepath.Join(dir, folder), os.DirFS(filepath.Join(root, folder))))
	}
	for _, file := range []string{"go.mod", "go.sum", ".gitignore", "Dockerfile", ".dockerignore"} {
		writeFile(t, filepath.Join(dir, file), readFile(t, filepath.Join(root, file)))
	}
	writeFile(t, filepath.Join(dir, "cmd/liveconfig-tell/main.go"), []byte(tell))
	git(t, dir, "init", "--quiet")
	git(t, dir, "add", ".")
	git(t, dir, "commit", "--quiet", "--message", "all")
	git(t, dir, "tag", released)
	return dir
}

// git runs git without the settings of the user, and returns what it prints.
func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Dir = dir
	cmd.Env = append(cmd.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=test", "GIT_AUTHOR_EMAIL=test@example.com", "GIT_AUTHOR_DATE="+committed,
		"GIT_COMMITTER_NAME=test", "GIT_COMMITTER_EMAIL=test@example.com", "GIT_COMMITTER_DATE="+committed)
	return output(t, cmd)
}

func output(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, errs.Bytes())
	}
	return string(bytes.TrimSpace(out))
}

func runImage(t *testing.T, args ...string) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	if err := run(t.Context(), args, func(string) string { return "" }, &stdout, &stderr); err != nil {
		t.Fatalf("run %s: %v\n%s", args, err, stderr.Bytes())
	}
	return stdout.String()
}

func indexOf(t *testing.T, out string) v1.ImageIndex {
	t.Helper()
	top, err := layout.ImageIndexFromPath(filepath.Join(out, "oci"))
	must(t, err)
	index, err := top.ImageIndex(manifestOf(t, top).Manifests[0].Digest)
	must(t, err)
	return index
}

func manifestOf(t *testing.T, index v1.ImageIndex) *v1.IndexManifest {
	t.Helper()
	m, err := index.IndexManifest()
	must(t, err)
	return m
}

func imagesOf(t *testing.T, index v1.ImageIndex) map[string]v1.Image {
	t.Helper()
	images := map[string]v1.Image{}
	for _, m := range manifestOf(t, index).Manifests {
		img, err := index.Image(m.Digest)
		must(t, err)
		images[m.Platform.String()] = img
	}
	return images
}

// entry is what is asked of a file in a layer.
type entry struct {
	Header  tar.Header
	Content []byte
}

func entriesOf(t *testing.T, img v1.Image) []entry {
	t.Helper()
	layers, err := img.Layers()
	must(t, err)
	var entries []entry
	for _, layer := range layers {
		content, err := layer.Uncompressed()
		must(t, err)
		entries = append(entries, readTar(t, content)...)
	}
	return entries
}

func readTar(t *testing.T, archive io.ReadCloser) []entry {
	t.Helper()
	defer archive.Close()
	var entries []entry
	for r := tar.NewReader(archive); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return entries
		}
		must(t, err)
		content, err := io.ReadAll(r)
		must(t, err)
		entries = append(entries, entry{*header, content})
	}
}

func extract(t *testing.T, entries []entry) string {
	t.Helper()
	dir := t.TempDir()
	for _, e := range entries {
		path := filepath.Join(dir, e.Header.Name)
		writeFile(t, path, e.Content)
		must(t, os.Chmod(path, e.Header.FileInfo().Mode()))
	}
	return dir
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	must(t, err)
	return content
}

func writeFile(t *testing.T, path string, content []byte) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must(t, os.WriteFile(path, content, 0o644))
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantSame[T any](t *testing.T, what string, want, got T) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}
