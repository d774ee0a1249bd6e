package killpoint_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/liveconfig-csi/liveconfig/test/kit/killpoint"
)

// When set, the test binary is the launcher, and then the program.
const (
	launchVariable = "TRIPWIRE_TEST_SOCKET"
	runVariable    = "TRIPWIRE_TEST_DIRECTORY"
)

func TestMain(m *testing.M) {
	socket, dir := os.Getenv(launchVariable), os.Getenv(runVariable)
	switch {
	case socket != "":
		_ = os.Unsetenv(launchVariable)
		fmt.Fprintln(os.Stderr, killpoint.Exec(socket, "/proc/self/exe", nil))
		os.Exit(1)
	case dir != "":
		if err := change(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// changes is how many change makes: five; reading and printing are not changes.
const changes = 5

func change(dir string) error {
	if err := os.Mkdir(filepath.Join(dir, "1"), 0o755); err != nil {
		return err
	}
	f, err := os.Create(filepath.Join(dir, "2"))
	if err != nil {
		return err
	}
	if _, err := f.WriteString("3"); err != nil {
		return err
	}
	if _, err := os.ReadFile(f.Name()); err != nil {
		return err
	}
	fmt.Println("this is not a change")
	if err := f.Chmod(0o600); err != nil {
		return err
	}
	return os.Rename(f.Name(), filepath.Join(dir, "5"))
}

// wire returns a killer that runs until the test ends, and what starts the program on it.
func wire(t *testing.T) (*killpoint.Killer, func(dir string) error) {
	t.Helper()
	dir, err := os.MkdirTemp("", "lc-w-") //nolint:usetesting // The path of a unix socket must be short.
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "wire")
	w, err := killpoint.Listen(socket)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := errors.Join(<-ended, os.RemoveAll(dir)); err != nil {
			t.Error(err)
		}
	})
	return w, func(dir string) error {
		cmd := exec.CommandContext(t.Context(), "/proc/self/exe")
		cmd.Env = append(os.Environ(), launchVariable+"="+socket, runVariable+"="+dir)
		cmd.Stderr = t.Output()
		return cmd.Run()
	}
}

func TestADisarmedWireLetsAllPass(t *testing.T) {
	t.Parallel()
	w, run := wire(t)
	for range 3 {
		w.Arm(changes + 1)
		if err := run(t.TempDir()); err != nil {
			t.Fatal(err)
		}
		seen, tripped := w.Disarm()
		if seen != changes || tripped != "" {
			t.Errorf("seen %d changes, killed before %q; want %d, none", seen, tripped, changes)
		}
		if err := run(t.TempDir()); err != nil {
			t.Error(err)
		}
	}
}

func TestAnArmedWireKillsBeforeTheChange(t *testing.T) {
	t.Parallel()
	w, run := wire(t)
	for n, want := range []string{"mkdirat", "openat", "write", "fchmod", "renameat"} {
		dir := t.TempDir()
		tripped := w.Arm(n + 1)
		err := run(dir)
		if e, ok := errors.AsType[*exec.ExitError](err); !ok || e.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
			t.Fatalf("change %d: the program ended with %v, want it killed", n+1, err)
		}
		<-tripped
		if seen, got := w.Disarm(); seen != n || got != want {
			t.Errorf("change %d: seen %d, killed before %q; want %d, %q", n+1, seen, got, n, want)
		}
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := len(entries), min(n, 2); got != want {
			t.Errorf("change %d: %d files were made before, want %d", n+1, got, want)
		}
	}
}
