package main

import (
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// built is what the subtests of TestImage look at: the image of a clean checkout, written and pushed.
type built struct {
	checkout, out, image string
	commit               stamp
	printed              string
	// images are by platform, and so is what is in their layers.
	images  map[string]v1.Image
	entries map[string][]entry
}

func TestImage(t *testing.T) {
	t.Parallel()
	quiet := registry.Logger(log.New(io.Discard, "", 0))
	hub := httptest.NewServer(registry.New(registry.WithReferrersSupport(true), quiet))
	t.Cleanup(hub.Close)
	b := built{
		checkout: newCheckout(t),
		out:      filepath.Join(t.TempDir(), "out"),
		image:    strings.TrimPrefix(hub.URL, "http://") + "/project/liveconfig:" + released,
	}
	created, err := time.Parse(time.RFC3339, committed)
	must(t, err)
	b.commit = stamp{version: released, revision: git(t, b.checkout, "rev-parse", "HEAD"), created: created}
	b.printed = runImage(t, "--source", b.checkout, "--out", b.out, "--image", b.image, "--push")
	b.images = imagesOf(t, indexOf(t, b.out))
	b.entries = map[string][]entry{}
	for platform, img := range b.images {
		b.entries[platform] = entriesOf(t, img)
	}
	for name, check := range map[string]func(*testing.T, built){
		"a checkout elsewhere gives the same bytes":   checkReproducible,
		"there is an image for each platform":         checkPlatforms,
		"the layer has the programs and nothing else": checkLayer,
		"the configuration is the documented one":     checkConfig,
		"the programs run and know their version":     checkPrograms,
		"the docker archive is this machine's image":  checkArchive,
		"the list names what go version names":        checkBOM,
		"the list is attached to the index":           checkReferrer,
		"the registry has what the layout has":        checkPushed,
		"the Dockerfile makes the same programs":      checkDockerBuild,
		"a change that is not committed shows":        checkDirty,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check(t, b)
		})
	}
}

func checkReproducible(t *testing.T, b built) {
	t.Helper()
	clone := filepath.Join(t.TempDir(), "a checkout with a longer name")
	git(t, b.checkout, "clone", "--quiet", ".", clone)
	out := filepath.Join(t.TempDir(), "out")
	printed := runImage(t, "--source", clone, "--out", out, "--image", b.image)
	want, got := digests(t, b.out), digests(t, out)
	wantSame(t, "files of two builds differ", want, got)
	if len(want) < 12 {
		t.Errorf("only %d files were compared: %v", len(want), want)
	}
	if got, want := strings.Fields(printed)[1], strings.Fields(b.printed)[1]; got != want {
		t.Errorf("printed digest = %s, want %s", got, want)
	}
}

func digests(t *testing.T, dir string) map[string]string {
	t.Helper()
	sums := map[string]string{}
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			sums[path] = fmt.Sprintf("%x", sha256.Sum256(readFile(t, filepath.Join(dir, path))))
		}
		return err
	})
	must(t, err)
	return sums
}

func checkPlatforms(t *testing.T, b built) {
	t.Helper()
	index := indexOf(t, b.out)
	if err := validate.Index(index, validate.Fast); err != nil {
		t.Errorf("the layout is not consistent: %v", err)
	}
	for file, sum := range digests(t, filepath.Join(b.out, "oci/blobs/sha256")) {
		if file != sum {
			t.Errorf("blob %s has hash %s", file, sum)
		}
	}
	var got []string
	for _, m := range manifestOf(t, index).Manifests {
		got = append(got, m.Platform.String())
	}
	wantSame(t, "platforms", []string{"linux/amd64", "linux/arm64"}, got)
}

func checkLayer(t *testing.T, b built) {
	t.Helper()
	type file struct {
		Name     string
		Mode     int64
		UID, GID int
		Modified time.Time
		Regular  bool
	}
	var want []file // The plugin of kubectl is for people, and not among them.
	for _, program := range programs() {
		want = append(want, file{program, 0o755, 0, 0, b.commit.created, true})
	}
	for platform, entries := range b.entries {
		var got []file
		for _, e := range entries {
			h := e.Header
			got = append(got, file{h.Name, h.Mode, h.Uid, h.Gid, h.ModTime.UTC(), h.Typeflag == '0'})
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("layer for %s (-want +got):\n%s", platform, diff)
		}
	}
}

func checkConfig(t *testing.T, b built) {
	t.Helper()
	for platform, img := range b.images {
		got, err := img.ConfigFile()
		must(t, err)
		if n := len(got.RootFS.DiffIDs); n != 1 || len(got.History) != 1 {
			t.Errorf("%s has %d layers with a history of %d, want 1", platform, n, len(got.History))
		}
		if !got.Created.Equal(b.commit.created) {
			t.Errorf("%s was created %s, want %s", platform, got.Created, b.commit.created)
		}
		if got := got.OS + "/" + got.Architecture; got != platform {
			t.Errorf("image for %s says it is for %s", platform, got)
		}
		want := v1.Config{Entrypoint: []string{"/liveconfig-driver"}, Labels: map[string]string{
			"org.opencontainers.image.title":    "liveconfig",
			"org.opencontainers.image.source":   "https://github.com/liveconfig-csi/liveconfig",
			"org.opencontainers.image.licenses": "Apache-2.0",
			"org.opencontainers.image.version":  released,
			"org.opencontainers.image.revision": b.commit.revision,
		}}
		if diff := cmp.Diff(want, got.Config); diff != "" {
			t.Errorf("config for %s (-want +got):\n%s", platform, diff)
		}
	}
}

func checkPrograms(t *testing.T, b built) {
	t.Helper()
	dir := extract(t, b.entries["linux/"+runtime.GOARCH])
	help, err := exec.CommandContext(t.Context(), filepath.Join(dir, entrypoint), "--help").CombinedOutput()
	if err != nil || !strings.Contains(string(help), "-driver-name") {
		t.Errorf("%s --help = %v, want its flags:\n%s", entrypoint, err, help)
	}
	// The builtin print writes to stderr.
	version, err := exec.CommandContext(t.Context(), filepath.Join(dir, "liveconfig-tell")).CombinedOutput()
	if err != nil || string(version) != released {
		t.Errorf("pkg/daemon/version in the image = %q, %v, want %q", version, err, released)
	}
}

func checkArchive(t *testing.T, b built) {
	t.Helper()
	tag, err := name.NewTag(b.image)
	must(t, err)
	img, err := tarball.ImageFromPath(filepath.Join(b.out, "docker.tar"), &tag)
	must(t, err)
	if !reflect.DeepEqual(entriesOf(t, img), b.entries["linux/"+runtime.GOARCH]) {
		t.Error("the archive's layer is not the image's")
	}
	got, err := img.ConfigName()
	must(t, err)
	// An image's ID is the hash of its configuration, and that has the hash of its layer.
	want, err := b.images["linux/"+runtime.GOARCH].ConfigName()
	if err != nil || got != want {
		t.Errorf("image ID in the archive = %s, want %s (%v)", got, want, err)
	}
}

func checkPushed(t *testing.T, b built) {
	t.Helper()
	ref, err := name.ParseReference(b.image)
	must(t, err)
	index, err := remote.Index(ref, remote.WithContext(t.Context()))
	must(t, err)
	if err := validate.Index(index, validate.Fast); err != nil {
		t.Errorf("what was pushed is not consistent: %v", err)
	}
	got, err := index.Digest()
	must(t, err)
	want, err := indexOf(t, b.out).Digest()
	if err != nil || got != want {
		t.Errorf("digest in the registry = %s, want %s (%v)", got, want, err)
	}
	if want := fmt.Sprintf("%s %s %s\n", b.image, got, b.out); b.printed != want {
		t.Errorf("printed %q, want %q", b.printed, want)
	}
}

func checkDirty(t *testing.T, b built) {
	t.Helper()
	clone := filepath.Join(t.TempDir(), "checkout")
	git(t, b.checkout, "clone", "--quiet", ".", clone)
	writeFile(t, filepath.Join(clone, "NOTES"), []byte("not committed\n"))
	out := filepath.Join(t.TempDir(), "out")
	runImage(t, "--source", clone, "--out", out, "--platforms", "linux/"+runtime.GOARCH)
	for platform, img := range imagesOf(t, indexOf(t, out)) {
		cfg, err := img.ConfigFile()
		must(t, err)
		if got, want := cfg.Config.Labels["org.opencontainers.image.version"], released+"+dirty"; got != want {
			t.Errorf("version for %s = %q, want %q", platform, got, want)
		}
	}
}

func TestOtherFilesAreLeft(t *testing.T) {
	t.Parallel()
	dir, staging := t.TempDir(), t.TempDir()
	writeFile(t, filepath.Join(dir, "mine"), []byte("mine"))
	writeFile(t, filepath.Join(dir, "oci/blobs/old"), []byte("old"))
	writeFile(t, filepath.Join(staging, "oci/blobs/new"), []byte("new"))
	must(t, moveAll(staging, dir))
	want := map[string]string{
		"mine":          fmt.Sprintf("%x", sha256.Sum256([]byte("mine"))),
		"oci/blobs/new": fmt.Sprintf("%x", sha256.Sum256([]byte("new"))),
	}
	wantSame(t, "files", want, digests(t, dir))
}
