package dryrun

import (
	"bytes"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"

	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
	"github.com/liveconfig-csi/liveconfig/test/kit/soak"
)

// published is what came of a version.
type published struct {
	// version is without v, as in the chart.
	version, registry, checkout string
	// pushed are the references in the registry, by digest: of the image and of the chart.
	pushed []string
}

func (p published) file(name string) string {
	return filepath.Join(p.checkout, "bin", "release", "files", name)
}

// TestDryRun runs the commands of the workflow. Programs for other systems than Linux take minutes to build, so only the soak
// builds them; otherwise texts stand for them.
func TestDryRun(t *testing.T) {
	t.Parallel()
	repo := repository(t)
	hub := httptest.NewServer(registry.New(registry.WithReferrersSupport(true), registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(hub.Close)
	p := published{registry: strings.TrimPrefix(hub.URL, "http://") + "/project"}
	p.version = regexp.MustCompile(`(?m)^version: (.*)$`).FindStringSubmatch(read(t, filepath.Join(repo, "deploy/chart/Chart.yaml")))[1]
	p.checkout = newCheckout(t, repo, "v"+p.version)
	env := []string{"VERSION=v" + p.version, "REGISTRY=" + p.registry, "PROGRAMS=" + standIns(t)}
	for _, line := range commands(t, repo) {
		run(t, p.checkout, env, "bash", "-c", line)
	}
	p.pushed = strings.Fields(read(t, filepath.Join(p.checkout, "bin/release/pushed")))
	for name, check := range map[string]func(*testing.T, published){
		"every file is there and has its digest":             checkFiles,
		"each archive has the plugin for its platform":       checkArchives,
		"the registry has the image for both platforms":      checkImage,
		"the list of the image's content is attached to it":  checkAttached,
		"an API server takes install.yaml, with that image":  checkInstall,
		"the chart comes back from the registry and renders": checkChart,
		"a version that is not the checkout's is refused":    checkRefusals,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check(t, p)
		})
	}
}

// standIns returns a folder with texts in place of programs, which is empty in the soak.
func standIns(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	for _, program := range []string{"darwin-amd64/", "darwin-arm64/", "windows-amd64/.exe", "windows-arm64/.exe"} {
		platform, suffix, _ := strings.Cut(program, "/")
		if soak.Rounds(1, 0) > 0 {
			write(t, filepath.Join(folder, platform, "kubectl-liveconfig"+suffix), "stands for "+platform)
		}
	}
	return folder
}

// newCheckout makes a git repository of the files as they are, all committed and tagged. Its programs of bin/ are the
// repository's.
func newCheckout(t *testing.T, repo, tag string) string {
	t.Helper()
	checkout := filepath.Join(t.TempDir(), "checkout")
	files := run(t, repo, nil, "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	for file := range strings.SplitSeq(strings.TrimSuffix(files, "\x00"), "\x00") {
		info, err := os.Stat(filepath.Join(repo, file))
		if os.IsNotExist(err) {
			continue // Deleted, and that is not committed.
		}
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(checkout, file), read(t, filepath.Join(repo, file)))
		if err := os.Chmod(filepath.Join(checkout, file), info.Mode()); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(checkout, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(repo, "bin", "tools"), filepath.Join(checkout, "bin", "tools")); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"init", "--quiet"}, {"add", "."}, {"commit", "--quiet", "--message", "all"}, {"tag", tag}} {
		run(t, checkout, []string{
			"GIT_AUTHOR_NAME=test", "GIT_AUTHOR_EMAIL=test@example.com",
			"GIT_COMMITTER_NAME=test", "GIT_COMMITTER_EMAIL=test@example.com",
		}, "git", args...)
	}
	return checkout
}

func repository(t *testing.T) string {
	t.Helper()
	repo, err := environment.Repo()
	if err != nil {
		t.Fatal(err)
	}
	return repo
}

// attempt runs a program and returns all that it prints. Nothing of this user's git, helm and make has a part in it.
func attempt(t *testing.T, folder string, env []string, program string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Dir = folder
	home := t.TempDir()
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "MAKEFLAGS=", "MAKELEVEL=",
		"DOCKER_CONFIG="+home, "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home, "KUBECONFIG=")
	cmd.Env = append(cmd.Env, env...)
	out, err := cmd.CombinedOutput()
	return string(bytes.TrimSpace(out)), err
}

func run(t *testing.T, folder string, env []string, program string, args ...string) string {
	t.Helper()
	out, err := attempt(t, folder, env, program, args...)
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", program, strings.Join(args, " "), err, out)
	}
	return out
}

func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}
