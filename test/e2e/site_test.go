package e2e_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	goruntime "runtime"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liveconfig-csi/liveconfig/test/kit/lab"
	"github.com/liveconfig-csi/liveconfig/test/kit/machine"
	"github.com/liveconfig-csi/liveconfig/test/kit/workdir"
)

// The image that the README names, in the version of the chart.
const driverImage = "registry.example.com/liveconfig:0.1.0"

// logVariable names another folder for the logs than bin/test/e2e, so that two runs can go on at once.
const logVariable = "LIVECONFIG_E2E_LOGS"

// current is the node that is running, if any. Starting one takes seconds, so tests share it: the one variable of the
// package. Tests that use it are not parallel.
var current struct {
	site   *site
	starts int
	failed map[string]error // By runtime: starting it again would not help.
}

// site is a node with the driver installed.
type site struct {
	*machine.Machine

	runtime machine.Runtime
	repo    string
	dir     *workdir.Dir
	temp    string // Its path, for files of the site's own.
}

// on returns a node with a container runtime, and with the driver installed as the README says. One with another runtime is
// stopped first. A test that fails may leave the node in any state, so it is the last one of its node.
func on(t *testing.T, runtime machine.Runtime) *site {
	t.Helper()
	if err := current.failed[runtime.Name]; err != nil {
		t.Fatalf("as before: %v", err)
	}
	if current.site != nil && current.site.runtime.Name != runtime.Name {
		leave(t)
	}
	if current.site == nil {
		s, err := newSite(context.WithoutCancel(t.Context()), runtime)
		if err != nil {
			if current.failed == nil {
				current.failed = map[string]error{}
			}
			current.failed[runtime.Name] = err
			t.Fatal(err)
		}
		current.site = s
	}
	s := current.site
	t.Cleanup(func() {
		if t.Failed() && current.site == s {
			t.Logf("the logs of all programs and pods are in %s", s.LogDir())
			if err := s.KeepState(context.Background()); err != nil {
				t.Logf("keep the state of the cluster: %v", err)
			}
			leave(t)
		}
	})
	return s
}

// leave stops the node that is running.
func leave(t *testing.T) {
	t.Helper()
	s := current.site
	current.site = nil
	if err := s.stop(); err != nil {
		t.Errorf("stop the node: %v", err)
	}
}

// logDir is where all logs of a run are.
func logDir() (string, error) {
	repo, err := lab.Repo()
	return cmp.Or(os.Getenv(logVariable), filepath.Join(repo, "bin", "test", "e2e")), err
}

func newSite(ctx context.Context, runtime machine.Runtime) (*site, error) {
	repo, err := lab.Repo()
	if err != nil {
		return nil, err
	}
	logs, err := logDir()
	if err != nil {
		return nil, err
	}
	dir, err := workdir.New("lc-site-")
	if err != nil {
		return nil, err
	}
	current.starts++
	m, err := machine.Start(ctx, machine.Config{
		Runtime: runtime, Repo: repo, LogDir: filepath.Join(logs, fmt.Sprint(current.starts, "-", runtime.Name)), Output: os.Stderr,
	})
	if err != nil {
		return nil, errors.Join(err, dir.Remove())
	}
	s := &site{Machine: m, runtime: runtime, repo: repo, dir: dir, temp: dir.Path()}
	if err := s.install(ctx); err != nil {
		return nil, errors.Join(err, m.KeepState(ctx), s.stop())
	}
	return s, nil
}

// stop is the end of the site.
func (s *site) stop() error { return errors.Join(s.Stop(), s.dir.Remove()) }

// install builds the image, gives it to the node as a registry would, and does what the README says.
func (s *site) install(ctx context.Context) error {
	if err := s.importDriver(ctx, driverImage); err != nil {
		return err
	}
	script, err := s.codeAfter("README.md", "## Install")
	if err != nil {
		return err
	}
	begin := time.Now()
	if _, err := s.shell(ctx, script); err != nil {
		return fmt.Errorf("install the driver as the README says: %w", err)
	}
	fmt.Fprintf(os.Stderr, "the driver is installed after %s\n", time.Since(begin).Round(time.Millisecond))
	return nil
}

// importDriver gives the node the driver's image under a name.
func (s *site) importDriver(ctx context.Context, image string) error {
	out := filepath.Join(s.temp, "image")
	build := exec.CommandContext(ctx, "go", "-C", "deploy/image", "run", ".", "--image="+image, "--platforms=linux/"+goruntime.GOARCH, "--out="+out)
	build.Dir = s.repo
	if output, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build the image: %w\n%s", err, output)
	}
	return s.ImportImage(ctx, filepath.Join(out, "docker.tar"))
}

// shell runs a script at the checkout's root, as an administrator would, and returns all that it prints.
func (s *site) shell(ctx context.Context, script string) (string, error) {
	return s.shellIn(ctx, s.repo, script)
}

func (s *site) shellIn(ctx context.Context, dir, script string) (string, error) {
	kubeconfig := filepath.Join(s.temp, "admin.kubeconfig")
	if err := s.WriteAdminKubeconfig(kubeconfig); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", script)
	cmd.Dir = dir
	bin := filepath.Join(s.repo, "bin")
	cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "HOME="+s.temp,
		"PATH="+strings.Join([]string{bin + "/k8s", bin + "/tools", os.Getenv("PATH")}, ":"))
	output, err := cmd.CombinedOutput()
	if err != nil {
		return string(output), fmt.Errorf("%w\n%s\n%s", err, script, output)
	}
	return string(output), nil
}

// codeAfter returns the first block of shell code in a page of this repository after a line.
func (s *site) codeAfter(page, line string) (string, error) {
	text, err := os.ReadFile(filepath.Join(s.repo, page))
	if err != nil {
		return "", err
	}
	_, rest, found := strings.Cut(string(text), "\n"+line+"\n")
	if !found {
		return "", fmt.Errorf("%s has no line %q", page, line)
	}
	blocks := codeBlocks(rest)
	if len(blocks) == 0 {
		return "", fmt.Errorf("%s has no shell code after %q", page, line)
	}
	return blocks[0], nil
}

// codeBlocks returns all blocks of shell code in a text.
func codeBlocks(markdown string) []string {
	var blocks []string
	for {
		_, rest, found := strings.Cut(markdown, "```sh\n")
		if !found {
			return blocks
		}
		code, after, _ := strings.Cut(rest, "```")
		blocks, markdown = append(blocks, code), after
	}
}

// driverPod returns the driver's pod once it is ready and no other is left.
func (s *site) driverPod(t testing.TB) string {
	t.Helper()
	return s.driverPodWithin(t, startTimeout)
}

func (s *site) driverPodWithin(t testing.TB, timeout time.Duration) string {
	t.Helper()
	var name string
	eventually(t, timeout, func() error {
		pods, err := s.Client().CoreV1().Pods("liveconfig-system").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		if len(pods.Items) != 1 {
			return fmt.Errorf("there are %d pods of the driver, want 1", len(pods.Items))
		}
		name = pods.Items[0].Name
		return ready(&pods.Items[0])
	})
	return name
}
