package environment

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// program is one that tests run, built from this checkout. It is built once for all test binaries, into bin/test.
type program struct {
	// dir is the folder below bin/test.
	dir string
	// module is the folder below the checkout that is built in.
	module string
	// target is the package.
	target string
	env    []string
	flags  []string
}

// The commands of the product.
const (
	driver     = "liveconfig-driver"
	controller = "liveconfig-controller"
	plugin     = "kubectl-liveconfig"
)

// racing is a command with the race detector.
func racing(command string) program {
	return program{
		dir: "race", module: ".", target: "./cmd/" + command,
		env: []string{"CGO_ENABLED=1"}, flags: []string{"-race"},
	}
}

// shipped is a command as `make build` and the image build it.
func shipped(command string) program {
	return static("shipped", ".", "./cmd/"+command)
}

// launcher starts a driver on a killer: see [NodeOnWire].
func launcher() program {
	return static("launcher", "test", "./kit/killpoint/launch")
}

// static is a program without C code and paths of this machine.
func static(dir, module, target string) program {
	return program{
		dir: dir, module: module, target: target,
		env: []string{"CGO_ENABLED=0"}, flags: []string{"-trimpath", "-ldflags=-s -w"},
	}
}

// Programs returns a directory of programs that are built already, for machines without Go. Empty: there is none.
func Programs() string { return os.Getenv("LIVECONFIG_PROGRAMS") }

func (p program) path(t testing.TB) string {
	t.Helper()
	path, err := p.build(context.WithoutCancel(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// built are the programs that this process has built, by their paths: to find one up to date takes the go command half a second.
var built sync.Map // Of func() error.

// build builds the program, once in a process, unless it is up to date, which the go command knows.
func (p program) build(ctx context.Context) (path string, err error) {
	if dir := Programs(); dir != "" {
		return filepath.Join(dir, filepath.Base(p.target)), nil
	}
	repo, err := Repo()
	if err != nil {
		return "", err
	}
	path = filepath.Join(repo, "bin", "test", p.dir, filepath.Base(p.target))
	once, _ := built.LoadOrStore(path, sync.OnceValue(func() error { return p.buildIn(ctx, repo, path) }))
	return path, once.(func() error)() //nolint:errcheck,forcetypeassert // Nothing else is stored.
}

// buildIn builds the program in a checkout. One process builds at a time: the others find it.
func (p program) buildIn(ctx context.Context, repo, path string) (err error) {
	unlock, err := lockFile(filepath.Join(repo, "bin", "test", "."+p.dir+".lock"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	args := append([]string{"build", "-o", path}, p.flags...)
	cmd := exec.CommandContext(ctx, "go", append(args, p.target)...)
	cmd.Dir = filepath.Join(repo, p.module)
	cmd.Env = append(os.Environ(), p.env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", p.target, err, out)
	}
	return nil
}

func lockFile(path string) (unlock func() error, err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file.Close, nil
}
