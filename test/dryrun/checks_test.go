package dryrun

import (
	"bytes"
	"debug/buildinfo"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/liveconfig-csi/liveconfig/test/kit/cluster"
	"github.com/liveconfig-csi/liveconfig/test/kit/soak"
)

// platforms are those of the plugin.
func platforms() []string {
	return []string{"darwin-amd64", "darwin-arm64", "linux-amd64", "linux-arm64", "windows-amd64", "windows-arm64"}
}

func checkFiles(t *testing.T, p published) {
	t.Helper()
	want := []string{"SHA256SUMS", "install.yaml"}
	for _, platform := range platforms() {
		want = append(want, "kubectl-liveconfig-"+platform+".tar.gz")
	}
	want = append(want, "liveconfig-"+p.version+".tgz", "liveconfig.yaml", "sbom.cdx.json")
	entries, err := os.ReadDir(p.file(""))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	checked := run(t, p.file(""), nil, "sha256sum", "--check", "SHA256SUMS")
	if n := strings.Count(checked, ": OK"); n != len(want)-1 {
		t.Errorf("SHA256SUMS has %d files, want all %d:\n%s", n, len(want)-1, checked)
	}
}

func checkArchives(t *testing.T, p published) {
	t.Helper()
	for _, platform := range platforms() {
		system, processor, _ := strings.Cut(platform, "-")
		folder, program := t.TempDir(), "kubectl-liveconfig"
		if system == "windows" {
			program += ".exe"
		}
		run(t, folder, nil, "tar", "-xzf", p.file("kubectl-liveconfig-"+platform+".tar.gz"))
		if !strings.Contains(read(t, filepath.Join(folder, "LICENSE")), "Apache License") {
			t.Errorf("the archive for %s has no license", platform)
		}
		if system != "linux" && soak.Rounds(1, 0) > 0 {
			continue // A text stands for it.
		}
		info, err := buildinfo.ReadFile(filepath.Join(folder, program))
		if err != nil {
			t.Fatal(err)
		}
		if info.Main.Version != "v"+p.version {
			t.Errorf("the program for %s is of version %s, want v%s", platform, info.Main.Version, p.version)
		}
		settings := map[string]string{}
		for _, s := range info.Settings {
			settings[s.Key] = s.Value
		}
		if settings["GOOS"] != system || settings["GOARCH"] != processor {
			t.Errorf("the program for %s is for %s-%s", platform, settings["GOOS"], settings["GOARCH"])
		}
	}
}

// digest returns a reference by digest.
func digest(t *testing.T, reference string) name.Digest {
	t.Helper()
	d, err := name.NewDigest(reference)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func checkImage(t *testing.T, p published) {
	t.Helper()
	tag, err := name.NewTag(p.registry + "/liveconfig:" + p.version)
	if err != nil {
		t.Fatal(err)
	}
	index, err := remote.Index(tag, remote.WithContext(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := index.Digest(); err != nil || p.pushed[0] != p.registry+"/liveconfig@"+got.String() {
		t.Errorf("%s is %s (%v), and bin/release/pushed says %s", tag, got, err, p.pushed[0])
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range manifest.Manifests {
		got = append(got, m.Platform.String())
	}
	if diff := cmp.Diff([]string{"linux/amd64", "linux/arm64"}, got); diff != "" {
		t.Errorf("platforms of the image (-want +got):\n%s", diff)
	}
}

func checkAttached(t *testing.T, p published) {
	t.Helper()
	d := digest(t, p.pushed[0])
	referrers, err := remote.Referrers(d, remote.WithContext(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := referrers.IndexManifest()
	if err != nil || len(manifest.Manifests) != 1 {
		t.Fatalf("%d manifests refer to the image (%v), want its list", len(manifest.Manifests), err)
	}
	img, err := remote.Image(d.Context().Digest(manifest.Manifests[0].Digest.String()), remote.WithContext(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	if got := layerOf(t, img); got != read(t, p.file("sbom.cdx.json")) {
		t.Error("the attached list is not the file sbom.cdx.json")
	}
}

// layerOf returns the only layer of an image.
func layerOf(t *testing.T, img v1.Image) string {
	t.Helper()
	layers, err := img.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("it has %d layers (%v), want 1", len(layers), err)
	}
	content, err := layers[0].Compressed()
	if err != nil {
		t.Fatal(err)
	}
	defer content.Close()
	var text bytes.Buffer
	if _, err := text.ReadFrom(content); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

func checkInstall(t *testing.T, p published) {
	t.Helper()
	c := cluster.ForTest(t)
	if out, err := c.Kubectl(t.Context(), "apply", "-f", p.file("install.yaml")); err != nil {
		t.Fatalf("apply install.yaml: %v\n%s", err, out)
	}
	got, err := c.Kubectl(t.Context(), "-n", "liveconfig-system", "get", "daemonset", "liveconfig-driver",
		"-o", "jsonpath={.spec.template.spec.containers[*].image}")
	if err != nil {
		t.Fatal(err)
	}
	_, sum, _ := strings.Cut(p.pushed[0], "@")
	if want := p.registry + "/liveconfig:" + p.version + "@" + sum; got != want {
		t.Errorf("install.yaml runs %s, want %s", got, want)
	}
	if _, err := remote.Index(digest(t, got), remote.WithContext(t.Context())); err != nil {
		t.Errorf("nothing is at the image of install.yaml: %v", err)
	}
}

// checkChart renders the chart from the registry without a value, because it names the image itself.
func checkChart(t *testing.T, p published) {
	t.Helper()
	if _, err := remote.Image(digest(t, p.pushed[1]), remote.WithContext(t.Context())); err != nil {
		t.Fatalf("bin/release/pushed says that the chart is %s: %v", p.pushed[1], err)
	}
	helm := filepath.Join(p.checkout, "bin/tools/helm")
	chart := "oci://" + p.registry + "/charts/liveconfig"
	pulled := t.TempDir()
	run(t, pulled, nil, helm, "pull", chart, "--version", p.version, "--plain-http")
	if file := "liveconfig-" + p.version + ".tgz"; read(t, filepath.Join(pulled, file)) != read(t, p.file(file)) {
		t.Error("the chart that comes back is another one")
	}
	out := run(t, pulled, nil, helm, "template", "liveconfig", chart, "--version", p.version, "--plain-http",
		"--namespace", "liveconfig-system", "--set", "controller.enabled=true")
	if n := strings.Count(out, `image: "`+p.registry+"/liveconfig:"+p.version+`"`); n != 2 {
		t.Errorf("the chart has the image of this version %d times, want 2:\n%s", n, out)
	}
}

func checkRefusals(t *testing.T, p published) {
	t.Helper()
	other := filepath.Join(t.TempDir(), "other")
	run(t, p.checkout, nil, "git", "clone", "--quiet", ".", other)
	refuse := func(want string, args ...string) {
		t.Helper()
		out, err := attempt(t, other, nil, "deploy/release.sh", args...)
		if err == nil || !strings.Contains(out, want) {
			t.Errorf("release.sh %s = %v, want %q:\n%s", strings.Join(args, " "), err, want, out)
		}
	}
	refuse("usage: ", "v"+p.version)
	refuse("usage: ", p.version, p.registry)
	refuse("usage: ", "v1.0.0;id", p.registry)
	refuse("type git tag v9.9.9", "v9.9.9", p.registry)
	run(t, other, nil, "git", "tag", "v9.9.9")
	refuse("no line «version: 9.9.9»", "v9.9.9", p.registry)
	write(t, filepath.Join(other, "LICENSE"), "another")
	refuse("type git status", "v"+p.version, p.registry)

	// A tag can have almost any name. No shell may run it.
	out, err := attempt(t, other, []string{"VERSION=v1'; touch ran; echo '$(touch ran)"}, "make", "-o", "bin/helm", "release")
	if _, statErr := os.Stat(filepath.Join(other, "ran")); err == nil || statErr == nil {
		t.Errorf("make release with a command in the tag = %v, and the command ran: %t:\n%s", err, statErr == nil, out)
	}
}
