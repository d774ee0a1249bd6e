// Package krew tests how releases of the plugin are packed, and that what was packed runs.
package krew

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
)

// krewPlugin is a manifest as Krew reads it, field by field: it knows no others.
type krewPlugin struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec struct {
		Version          string         `json:"version"`
		ShortDescription string         `json:"shortDescription"`
		Description      string         `json:"description"`
		Caveats          string         `json:"caveats"`
		Homepage         string         `json:"homepage"`
		Platforms        []krewPlatform `json:"platforms"`
	} `json:"spec"`
}

type krewPlatform struct {
	URI      string                `json:"uri"`
	SHA256   string                `json:"sha256"`
	Selector *metav1.LabelSelector `json:"selector"`
	Files    []krewFile            `json:"files"`
	Bin      string                `json:"bin"`
}

type krewFile struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// TestKrewManifest packs the plugin as a release does, with programs that stand for those of other platforms, and checks the
// manifest by Krew's rules: its fields, and that each archive has the digest and the files that the manifest names.
func TestKrewManifest(t *testing.T) {
	t.Parallel()
	programs, out := t.TempDir(), t.TempDir()
	platforms := []string{"linux-amd64", "linux-arm64", "darwin-amd64", "darwin-arm64", "windows-amd64", "windows-arm64"}
	for _, platform := range platforms {
		writeProgram(t, programs, platform, "the program for "+platform)
	}
	pack(t, "v1.2.3-rc.1", out, programs)

	manifest := readKrew(t, filepath.Join(out, "liveconfig.yaml"))
	if got, want := manifest.APIVersion+" "+manifest.Kind, "krew.googlecontainertools.github.com/v1alpha2 Plugin"; got != want {
		t.Errorf("it is a %s, want %s", got, want)
	}
	if manifest.Name != "liveconfig" || manifest.Spec.Version != "v1.2.3-rc.1" {
		t.Errorf("it is %s %s, want liveconfig v1.2.3-rc.1", manifest.Name, manifest.Spec.Version)
	}
	if short := manifest.Spec.ShortDescription; short == "" || len(short) > 50 || strings.HasSuffix(short, ".") {
		t.Errorf("the short description is %q, want at most 50 letters and no full stop", short)
	}
	var seen []string
	for _, platform := range manifest.Spec.Platforms {
		seen = append(seen, checkPlatform(t, out, platform))
	}
	if diff := cmp.Diff(platforms, seen); diff != "" {
		t.Errorf("platforms (-want +got):\n%s", diff)
	}
}

// checkPlatform checks what a manifest has for a platform, by the archive, and returns which it is.
func checkPlatform(t *testing.T, dir string, platform krewPlatform) string {
	t.Helper()
	if _, err := metav1.LabelSelectorAsSelector(platform.Selector); err != nil {
		t.Errorf("the selector of %s: %v", platform.URI, err)
	}
	name := platform.Selector.MatchLabels["os"] + "-" + platform.Selector.MatchLabels["arch"]
	address, err := url.Parse(platform.URI)
	want := "/liveconfig-csi/liveconfig/releases/download/v1.2.3-rc.1/kubectl-liveconfig-" + name + ".tar.gz"
	if err != nil || address.Scheme != "https" || address.Host != "github.com" || address.Path != want {
		t.Errorf("the uri of %s is %s (%v), want https://github.com%s", name, platform.URI, err, want)
	}
	archive, err := os.ReadFile(filepath.Join(dir, path.Base(address.Path)))
	if err != nil {
		t.Fatal(err)
	}
	digest := sha256.Sum256(archive)
	if got := hex.EncodeToString(digest[:]); got != platform.SHA256 {
		t.Errorf("the archive of %s has the digest %s, and the manifest says %s", name, got, platform.SHA256)
	}
	files := untar(t, archive)
	for _, file := range platform.Files {
		if _, found := files[file.From]; !found || file.To != "." {
			t.Errorf("the archive of %s has no %s, or that goes to %s and not to its own folder", name, file.From, file.To)
		}
		delete(files, file.From)
		if file.From != platform.Bin {
			continue
		}
		platform.Bin = ""
	}
	if platform.Bin != "" || len(files) > 0 {
		t.Errorf("of %s, the program %q is not among the files, or the archive has more: %v", name, platform.Bin, files)
	}
	return name
}

// TestKrewArchiveRuns builds the archive of this machine's platform from source, and runs the program in it.
func TestKrewArchiveRuns(t *testing.T) {
	t.Parallel()
	repo, err := environment.Repo()
	if err != nil {
		t.Fatal(err)
	}
	programs, out := t.TempDir(), t.TempDir()
	for _, platform := range []string{"linux-amd64", "linux-arm64", "darwin-amd64", "darwin-arm64", "windows-amd64", "windows-arm64"} {
		writeProgram(t, programs, platform, "")
	}
	here := filepath.Join(programs, "linux-"+goarch(t), "kubectl-liveconfig")
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-o", here, "./cmd/kubectl-liveconfig")
	build.Dir = repo
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, text)
	}
	pack(t, "v1.2.3", out, programs)
	again := t.TempDir()
	pack(t, "v1.2.3", again, programs)

	name := "kubectl-liveconfig-linux-" + goarch(t) + ".tar.gz"
	archive, err := os.ReadFile(filepath.Join(out, name))
	if err != nil {
		t.Fatal(err)
	}
	if second, err := os.ReadFile(filepath.Join(again, name)); err != nil || !bytes.Equal(archive, second) {
		t.Errorf("packed again the archive has other bytes (%v)", err)
	}
	installed := filepath.Join(t.TempDir(), "kubectl-liveconfig")
	if err := os.WriteFile(installed, untar(t, archive)["kubectl-liveconfig"], 0o755); err != nil {
		t.Fatal(err)
	}
	text, err := exec.CommandContext(t.Context(), installed, "version", "--client").CombinedOutput()
	if err != nil || len(strings.Fields(string(text))) != 1 {
		t.Errorf("the program in the archive says %q (%v), want its version", text, err)
	}
}

func TestKrewPackRefusesWhatIsNoVersion(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"1.2.3", "v1.2", "main", ""} {
		text, err := packing(t, version, t.TempDir(), t.TempDir())
		if err == nil || !strings.Contains(text, "usage: ") {
			t.Errorf("packed as %q: %v\n%s", version, err, text)
		}
	}
}

// TestKrewTemplate holds Krew's rules for names and versions, and that nothing of the template is left when it is filled in.
func TestKrewTemplate(t *testing.T) {
	t.Parallel()
	repo, err := environment.Repo()
	if err != nil {
		t.Fatal(err)
	}
	manifest := readKrew(t, filepath.Join(repo, "deploy", "krew", "liveconfig.yaml"))
	if problems := validation.IsDNS1123Label(manifest.Name); len(problems) > 0 {
		t.Errorf("the name %q: %q", manifest.Name, problems)
	}
	for _, platform := range manifest.Spec.Platforms {
		if platform.SHA256 != "SHA256" || !strings.Contains(platform.URI, "/VERSION/") {
			t.Errorf("%s (%s) has no place for what is filled in", platform.URI, platform.SHA256)
		}
	}
}

// readKrew reads a manifest, of which Krew knows every field.
func readKrew(t *testing.T, file string) krewPlugin {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var manifest krewPlugin
	if err := yaml.UnmarshalStrict(text, &manifest); err != nil {
		t.Fatal(err)
	}
	return manifest
}

func writeProgram(t *testing.T, programs, platform, text string) {
	t.Helper()
	name := "kubectl-liveconfig"
	if strings.HasPrefix(platform, "windows-") {
		name += ".exe"
	}
	folder := filepath.Join(programs, platform)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func pack(t *testing.T, version, out, programs string) {
	t.Helper()
	if text, err := packing(t, version, out, programs); err != nil {
		t.Fatalf("pack: %v\n%s", err, text)
	}
}

func packing(t *testing.T, version, out, programs string) (string, error) {
	t.Helper()
	repo, err := environment.Repo()
	if err != nil {
		t.Fatal(err)
	}
	text, err := exec.CommandContext(t.Context(), filepath.Join(repo, "deploy", "krew", "pack.sh"), version, out, programs).CombinedOutput()
	return string(text), err
}

// goarch returns the architecture that Go builds for here.
func goarch(t *testing.T) string {
	t.Helper()
	text, err := exec.CommandContext(t.Context(), "go", "env", "GOARCH").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

// untar returns the files of an archive. A program can be run, and all belong to root and to no time.
func untar(t *testing.T, archive []byte) map[string][]byte {
	t.Helper()
	unpacked, err := gzip.NewReader(strings.NewReader(string(archive)))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for entries := tar.NewReader(unpacked); ; {
		header, err := entries.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		wanted := int64(0o755)
		if header.Name == "LICENSE" {
			wanted = 0o644
		}
		if header.Mode != wanted || header.Uid != 0 || header.Gid != 0 || header.ModTime.Unix() != 0 {
			t.Errorf("%s has mode %o, owner %d:%d and is of %s", header.Name, header.Mode, header.Uid, header.Gid, header.ModTime)
		}
		if files[header.Name], err = io.ReadAll(entries); err != nil {
			t.Fatal(err)
		}
	}
}
