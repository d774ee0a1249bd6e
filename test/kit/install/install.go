// Package install is a real node with the driver in a container, installed by the words of the README.
//
// It does not know what the driver is used for.
package install

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/liveconfig-csi/liveconfig/test/kit/page"
	"github.com/liveconfig-csi/liveconfig/test/kit/realnode"
	"github.com/liveconfig-csi/liveconfig/test/kit/workdir"
)

// DriverImage is what the README calls the image, in the version of the chart.
const DriverImage = "registry.example.com/liveconfig:0.1.0"

// scriptTimeout is many times what an installation takes, and more than twice what the longest script does.
const scriptTimeout = 10 * time.Minute

// Config says where things are. The fields above Box are required.
type Config struct {
	// Runtime is the node's container runtime.
	Runtime realnode.Runtime
	// Repo is the root of the checkout, where `make` has built the programs.
	Repo string
	// LogDir receives the logs of all programs and pods, which stay there.
	LogDir string
	// Output gets one line for each step.
	Output io.Writer
	// Box is as in [realnode.Config], and may be empty.
	Box string
	// Image is an archive of the driver's image under the name that the README uses. Empty: Install builds one.
	Image string
}

// Installation is a node with the driver installed.
type Installation struct {
	*realnode.Node

	cfg Config
	dir *workdir.Dir
}

// Start returns when pods can use volumes. The caller must call [Installation.Stop].
func Start(ctx context.Context, cfg Config) (*Installation, error) {
	dir, err := workdir.New("lc-install-")
	if err != nil {
		return nil, err
	}
	m, err := realnode.Start(ctx, realnode.Config{
		Runtime: cfg.Runtime, Repo: cfg.Repo, LogDir: cfg.LogDir, Output: cfg.Output, Box: cfg.Box,
	})
	if err != nil {
		return nil, errors.Join(err, dir.Remove())
	}
	s := &Installation{Node: m, cfg: cfg, dir: dir}
	if err := s.Install(ctx); err != nil {
		return nil, errors.Join(err, m.KeepState(ctx), s.Stop())
	}
	return s, nil
}

// Stop ends everything. The logs stay.
func (s *Installation) Stop() error { return errors.Join(s.Node.Stop(), s.dir.Remove()) }

// Dir is a directory for files that are removed with the installation.
func (s *Installation) Dir() string { return s.dir.Path() }

// Repo is the root of the checkout.
func (s *Installation) Repo() string { return s.cfg.Repo }

// Runtime is the node's container runtime.
func (s *Installation) Runtime() realnode.Runtime { return s.cfg.Runtime }

// Say reports a step to the user. The log has the same lines.
func (s *Installation) Say(format string, args ...any) {
	_, _ = fmt.Fprintf(s.cfg.Output, format+"\n", args...)
}

// Install builds the image, gives it to the node as a registry would, and does what the README says.
func (s *Installation) Install(ctx context.Context) error {
	var err error
	if s.cfg.Image != "" {
		err = s.ImportImage(ctx, s.cfg.Image)
	} else {
		err = s.ImportDriver(ctx, DriverImage)
	}
	if err != nil {
		return err
	}
	return s.install(ctx, "the driver", "README.md", "## Install")
}

// InstallController installs the rollout controller beside the driver, as deploy/README.md says.
func (s *Installation) InstallController(ctx context.Context) error {
	return s.install(ctx, "the controller", "deploy/README.md", "## The rollout controller")
}

// install runs the first commands of a page after a line.
func (s *Installation) install(ctx context.Context, what, path, line string) error {
	script, err := s.CodeAfter(path, line)
	if err != nil {
		return err
	}
	begin := time.Now()
	if _, err := s.Shell(ctx, script); err != nil {
		return fmt.Errorf("install %s as %s says: %w", what, path, err)
	}
	s.Say("%s is installed after %s", what, time.Since(begin).Round(time.Millisecond))
	return nil
}

// ImportDriver builds the driver's image and gives it to the node under a name.
func (s *Installation) ImportDriver(ctx context.Context, image string) error {
	out := filepath.Join(s.Dir(), "image")
	build := exec.CommandContext(ctx, "go", "-C", "deploy/image", "run", ".",
		"--image="+image, "--platforms=linux/"+runtime.GOARCH, "--out="+out)
	build.Dir = s.cfg.Repo
	build.Env = append(os.Environ(), "GOTMPDIR="+s.Dir()) // It goes with the node, also when the build is killed.
	if output, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build the image: %w\n%s", err, output)
	}
	return s.ImportImage(ctx, filepath.Join(out, "docker.tar"))
}

// Shell runs a script at the checkout's root, as an administrator would, and returns all that it prints.
func (s *Installation) Shell(ctx context.Context, script string) (string, error) {
	return s.ShellIn(ctx, s.cfg.Repo, script)
}

// ShellIn is [Installation.Shell] in another folder.
func (s *Installation) ShellIn(ctx context.Context, dir, script string) (string, error) {
	env, err := s.Environ()
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, scriptTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", script)
	cmd.Dir = dir
	cmd.Env = env
	output, err := cmd.CombinedOutput()
	if err != nil {
		return string(output), fmt.Errorf("%w\n%s\n%s", err, script, output)
	}
	return string(output), nil
}

// Environ returns the environment of an administrator's shell: kubectl and helm are in the PATH, after the folders that are
// named, and reach the cluster. The home directory is removed with the installation, and with it what they store there.
func (s *Installation) Environ(folders ...string) ([]string, error) {
	kubeconfig := filepath.Join(s.Dir(), "admin.kubeconfig")
	if err := s.WriteAdminKubeconfig(kubeconfig); err != nil {
		return nil, err
	}
	bin := filepath.Join(s.cfg.Repo, "bin")
	path := slices.Concat(folders, []string{bin + "/k8s", bin + "/tools", os.Getenv("PATH")})
	return append(os.Environ(), "KUBECONFIG="+kubeconfig, "HOME="+s.Dir(), "PATH="+strings.Join(path, ":")), nil
}

// CodeAfter returns the first block of shell code in a page of the repository after a line.
func (s *Installation) CodeAfter(path, line string) (string, error) {
	text, err := os.ReadFile(filepath.Join(s.cfg.Repo, path))
	if err != nil {
		return "", err
	}
	_, rest, found := strings.Cut(string(text), "\n"+line+"\n")
	if !found {
		return "", fmt.Errorf("%s has no line %q", path, line)
	}
	blocks := page.Commands(rest)
	if len(blocks) == 0 {
		return "", fmt.Errorf("%s has no shell code after %q", path, line)
	}
	return blocks[0], nil
}
