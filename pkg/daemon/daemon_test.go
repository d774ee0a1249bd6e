package daemon_test

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/daemon"
)

// role is the variable that has this test's binary be a daemon.
const role = "LIVECONFIG_TEST_DAEMON"

// TestMain is the daemon that the tests start.
func TestMain(m *testing.M) {
	if _, isDaemon := os.LookupEnv(role); isDaemon {
		os.Exit(daemon.Main(context.Background(), "example", example))
	}
	os.Exit(m.Run())
}

// example does what its first argument names.
func example(ctx context.Context, args []string, getenv func(string) string, stderr io.Writer) error {
	switch args[0] {
	case "help":
		return fmt.Errorf("flags: %w", flag.ErrHelp)
	case "fail":
		return errors.New("the socket is gone, " + getenv(role))
	case "hang":
		fmt.Fprintln(stderr, "began")
		<-ctx.Done()
		for range time.Tick(time.Millisecond) {
			fmt.Fprintln(stderr, "hangs")
		}
	}
	fmt.Fprintln(stderr, "began")
	<-ctx.Done()
	return nil
}

func command(t *testing.T, does string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], does)
	// The race detector lets a program that ends wait for a second, which has no purpose here.
	cmd.Env = append(os.Environ(), role+"=says the environment", "GORACE=atexit_sleep_ms=0")
	return cmd
}

func TestMainExits(t *testing.T) {
	t.Parallel()
	for does, want := range map[string]struct {
		code   int
		stderr string
	}{
		"help": {0, ""},
		"fail": {1, "example: the socket is gone, says the environment\n"},
	} {
		cmd := command(t, does)
		var stderr strings.Builder
		cmd.Stderr = &stderr
		_ = cmd.Run() // The state shows it.
		if code := cmd.ProcessState.ExitCode(); code != want.code || stderr.String() != want.stderr {
			t.Errorf("%s: exit code %d and %q, want %d and %q", does, code, &stderr, want.code, want.stderr)
		}
	}
}

// TestMainStopsAtASignal sends a signal for each line that the daemon writes.
func TestMainStopsAtASignal(t *testing.T) {
	t.Parallel()
	const killed = -1
	for name, tt := range map[string]struct {
		does   string
		signal syscall.Signal
		code   int
	}{
		"SIGTERM":                          {"wait", syscall.SIGTERM, 0},
		"SIGINT":                           {"wait", syscall.SIGINT, 0},
		"a second one, if it does not end": {"hang", syscall.SIGTERM, killed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := command(t, tt.does)
			stderr, err := cmd.StderrPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			for lines := bufio.NewScanner(stderr); lines.Scan(); {
				_ = cmd.Process.Signal(tt.signal) // An earlier signal may have ended it.
			}
			_ = cmd.Wait() // The state shows it.
			if code := cmd.ProcessState.ExitCode(); code != tt.code {
				t.Errorf("exit code %d, want %d", code, tt.code)
			}
		})
	}
}

func TestCheckHTTPEndpoint(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]bool{
		"": true, ":9809": true, "127.0.0.1:9809": true, "[::1]:9809": true, "localhost:0": true,
		"localhost": false, "9809": false, ":65536": false, "localhost:": false, ":http": false,
	} {
		err := daemon.CheckHTTPEndpoint(address)
		text := fmt.Sprintf("--http-endpoint %q is not host:port, such as 127.0.0.1:9809 or :9809", address)
		if (err == nil) != want || err != nil && err.Error() != text {
			t.Errorf("CheckHTTPEndpoint(%q) = %v, want a mistake to be said so: %s", address, err, text)
		}
	}
}

func TestCheckLogFormat(t *testing.T) {
	t.Parallel()
	for format, want := range map[string]bool{"text": true, "json": true, "": false, "xml": false} {
		err := daemon.CheckLogFormat(format)
		text := fmt.Sprintf("--log-format %q is not text or json", format)
		if (err == nil) != want || err != nil && err.Error() != text {
			t.Errorf("CheckLogFormat(%q) = %v, want a mistake to be said so: %s", format, err, text)
		}
	}
}
