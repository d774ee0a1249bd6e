// Package site is the node that the benchmark measures: a real one, with the driver in a container, installed by the words
// of the README.
//
// It does not know what is measured.
package site

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/liveconfig-csi/liveconfig/test/kit/machine"
	"github.com/liveconfig-csi/liveconfig/test/kit/workdir"
)

// driverImage is what the README calls the image, in the version of the chart.
const driverImage = "registry.example.com/liveconfig:0.1.0"

// installTimeout is many times what an installation takes.
const installTimeout = 5 * time.Minute

// Config says where things are. All fields are required.
type Config struct {
	// Repo is the root of the checkout, where `make` has built the programs.
	Repo string
	// LogDir receives the logs of all programs and pods, which stay there.
	LogDir string
	// Output is told what is being done.
	Output io.Writer
}

// Site is a node with the driver installed.
type Site struct {
	*machine.Machine

	cfg   Config
	dir   *workdir.Dir
	crowd []*corev1.Pod
}

// Start returns when pods can use volumes. The caller must call [Site.Stop].
func Start(ctx context.Context, cfg Config) (_ *Site, err error) {
	dir, err := workdir.New("lc-bench-")
	if err != nil {
		return nil, err
	}
	s := &Site{cfg: cfg, dir: dir}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Stop())
		}
	}()
	s.Machine, err = machine.Start(ctx, machine.Config{
		Runtime: machine.Containerd2(), Repo: cfg.Repo, LogDir: cfg.LogDir, Output: cfg.Output,
	})
	if err != nil {
		return nil, err
	}
	return s, s.install(ctx)
}

// Stop ends everything. The logs stay.
func (s *Site) Stop() error {
	var err error
	if s.Machine != nil {
		err = s.Machine.Stop()
	}
	return errors.Join(err, s.dir.Remove())
}

// Dir is a directory for files that are gone with the site.
func (s *Site) Dir() string { return s.dir.Path() }

// Repo is the root of the checkout.
func (s *Site) Repo() string { return s.cfg.Repo }

// install gives the node the image as a registry would, and does what the README says.
func (s *Site) install(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, installTimeout)
	defer cancel()
	out := filepath.Join(s.Dir(), "image")
	build := exec.CommandContext(ctx, "go", "-C", "deploy/image", "run", ".",
		"--image="+driverImage, "--platforms=linux/amd64", "--out="+out)
	build.Dir = s.cfg.Repo
	if output, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build the image: %w\n%s", err, output)
	}
	if err := s.ImportImage(ctx, filepath.Join(out, "docker.tar")); err != nil {
		return err
	}
	script, err := codeAfter(filepath.Join(s.cfg.Repo, "README.md"), "## Install")
	if err != nil {
		return err
	}
	begin := time.Now()
	if err := s.shell(ctx, script); err != nil {
		return fmt.Errorf("install the driver as the README says: %w", err)
	}
	s.Say("the driver is installed after %s", time.Since(begin).Round(time.Millisecond))
	return nil
}

// shell runs a script at the checkout's root, as an administrator would.
func (s *Site) shell(ctx context.Context, script string) error {
	kubeconfig := filepath.Join(s.Dir(), "admin.kubeconfig")
	if err := s.WriteAdminKubeconfig(kubeconfig); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", script)
	cmd.Dir = s.cfg.Repo
	bin := filepath.Join(s.cfg.Repo, "bin")
	cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "HOME="+s.Dir(),
		"PATH="+strings.Join([]string{bin + "/k8s", bin + "/tools", os.Getenv("PATH")}, ":"))
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s\n%s", err, script, output)
	}
	return nil
}

// codeAfter returns the first block of shell code in a page after a line.
func codeAfter(page, line string) (string, error) {
	text, err := os.ReadFile(page)
	if err != nil {
		return "", err
	}
	_, rest, _ := strings.Cut(string(text), "\n"+line+"\n")
	_, rest, found := strings.Cut(rest, "```sh\n")
	if !found {
		return "", fmt.Errorf("%s has no shell code after %q", page, line)
	}
	code, _, _ := strings.Cut(rest, "```")
	return code, nil
}

// Fast returns an administrator's client that speaks as the driver does, by the shortest encoding, so that the benchmark
// takes as little time as it can.
func (s *Site) Fast() (kubernetes.Interface, error) { return kubernetes.NewForConfig(s.FastConfig()) }

// FastConfig is the configuration of [Site.Fast].
func (s *Site) FastConfig() *rest.Config {
	config := s.AdminConfig()
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	return config
}

// Say tells the user what is being done. One who does not listen misses nothing that is not written down.
func (s *Site) Say(format string, args ...any) {
	_, _ = fmt.Fprintf(s.cfg.Output, format+"\n", args...)
}

// Rest waits for some time, or until the context ends.
func Rest(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
