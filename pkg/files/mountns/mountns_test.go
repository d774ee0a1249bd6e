package mountns_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/liveconfig-csi/liveconfig/pkg/files/mountns"
)

const (
	// variable is how a process knows in which mount namespace it is meant to be.
	variable = "LIVECONFIG_MOUNT_NAMESPACE"
	// roleVariable makes the test binary play one of the roles instead of running tests.
	roleVariable = "MOUNTNS_TEST_ROLE"
	// patience is how long a program may take until its next line, or to end; it takes a fraction.
	patience = 15 * time.Second
)

// TestMain runs the tests inside, so that they may mount, and as a program that is started by them plays a role.
func TestMain(m *testing.M) {
	if name := os.Getenv(roleVariable); name != "" {
		os.Exit(play(name))
	}
	os.Exit(mountns.Main(m))
}

// program is the test binary in a role, with a fresh start: it does not know that it is inside already.
type program struct {
	*exec.Cmd

	pipe    *os.File // Where stdout comes from.
	stdout  *bufio.Reader
	stderr  bytes.Buffer
	isReady bool // It has said so.
}

// start starts the program. adjust may change it before.
func start(t *testing.T, role string, adjust func(*exec.Cmd)) *program {
	t.Helper()
	catchIgnored()
	ctx, cancel := context.WithTimeout(t.Context(), 8*patience)
	t.Cleanup(cancel)
	p := &program{Cmd: exec.CommandContext(ctx, "/proc/self/exe", "argument one", "two")}
	// The race detector lets a program that ends wait for a second, which has no purpose here.
	p.Env = append(withoutVariable(os.Environ()), roleVariable+"="+role, "GORACE=atexit_sleep_ms=0")
	p.Dir = "/"
	p.Stderr = &p.stderr
	out, err := p.StdoutPipe()
	must(t, err)
	p.pipe, p.stdout = out.(*os.File), bufio.NewReader(out)
	adjust(p.Cmd)
	must(t, p.Start())
	return p
}

// catchIgnored gives the programs that the tests start the default action for signals that the tests inherited as ignored,
// as under nohup or in the background of a shell. A child inherits ignored signals, but not caught ones. The tests drop the
// signals that they catch.
func catchIgnored() {
	for _, sig := range []os.Signal{unix.SIGHUP, unix.SIGINT} {
		if signal.Ignored(sig) {
			signal.Notify(make(chan os.Signal, 1), sig)
		}
	}
}

func withoutVariable(env []string) []string {
	var kept []string
	for _, kv := range env {
		if !strings.HasPrefix(kv, variable+"=") {
			kept = append(kept, kv)
		}
	}
	return kept
}

// unchanged is for programs that are started as they are.
func unchanged(*exec.Cmd) {}

// line returns the next line of the output.
func (p *program) line(t *testing.T) string {
	t.Helper()
	must(t, p.pipe.SetReadDeadline(time.Now().Add(patience)))
	line, err := p.stdout.ReadString('\n')
	if err != nil {
		_ = p.Process.Kill()
		_ = p.Wait()
		t.Fatalf("output ends with %q, %v; standard error:\n%s", line, err, p.stderr.String())
	}
	return strings.TrimSuffix(line, "\n")
}

// end waits for the end and returns the rest of the output and the exit code.
func (p *program) end(t *testing.T) (string, int) {
	t.Helper()
	must(t, p.pipe.SetReadDeadline(time.Now().Add(patience)))
	rest, err := io.ReadAll(p.stdout)
	must(t, err)
	_ = p.Wait() // The state has the exit code.
	return string(rest), p.ProcessState.ExitCode()
}

// check fails the test unless the program ends with the output and the code.
func (p *program) check(t *testing.T, output string, code int) {
	t.Helper()
	got, gotCode := p.end(t)
	if got != output || gotCode != code {
		t.Errorf("output and code = %q, %d, want %q, %d; standard error:\n%s", got, gotCode, output, code, p.stderr.String())
	}
}

// users are users that may call Reexec: the one that runs the tests, and one that is not root.
func users() map[string]func(*exec.Cmd) {
	all := map[string]func(*exec.Cmd){"the user that runs the tests": unchanged}
	if others() {
		all["an ordinary user"] = func(c *exec.Cmd) {
			c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		}
	}
	return all
}

// others reports whether this process's user namespace has other users than the one that runs the tests. Without root's
// rights it has not: then the tests are run by an ordinary user anyway.
func others() bool {
	ids, err := os.ReadFile("/proc/self/uid_map")
	return err == nil && strings.Contains(string(ids), "4294967295")
}

func TestReexec(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		role, output string
		code         int
	}{
		"the end is passed on":             {"exit 0", "", 0},
		"the exit code is passed on":       {"exit 7", "", 7},
		"a death by signal is passed on":   {"kill 9", "", 137},
		"arguments and input are":          {"args", "argument one|two|input", 0},
		"it is root inside":                {"whoami", "0 0", 0},
		"mounts do not show outside":       {"propagate", "", 0},
		"processes started inside stay":    {"stay", "", 0},
		"what is shared inside stays so":   {"shared", "", 0},
		"Main gives the code of the tests": {"main", "", 5},
	}
	for user, become := range users() {
		t.Run(user, func(t *testing.T) {
			t.Parallel()
			for name, tc := range tests {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					p := start(t, tc.role, func(c *exec.Cmd) {
						become(c)
						c.Stdin = strings.NewReader("input")
					})
					p.check(t, tc.output, tc.code)
				})
			}
		})
	}
}

func TestReexecInProcess(t *testing.T) {
	here := os.Getenv(variable)
	o, err := mountns.Reexec()
	if !o.Inside || err != nil {
		t.Errorf("Reexec inside = %+v, %v, want to be inside", o, err)
	}
	t.Setenv("GORACE", "atexit_sleep_ms=0")
	for code, before := range []string{"", "mnt:[1]", "leaving " + here} { // None of them is where we are.
		t.Setenv(variable, before)
		t.Setenv(roleVariable, fmt.Sprintf("exit %d", code))
		o, err := mountns.Reexec()
		if o.Inside || o.ExitCode != code || err != nil {
			t.Errorf("Reexec with %q = %+v, %v, want to be outside and the code %d", before, o, err, code)
		}
	}
	t.Setenv(roleVariable, "kill 15")
	if o, err := mountns.Reexec(); o.Inside || o.ExitCode != 128+15 || err != nil {
		t.Errorf("Reexec = %+v, %v, want the code 143", o, err)
	}
	if got := mountns.Main(failing(1)); got != 128+15 {
		t.Errorf("Main = %d, want 143", got)
	}
}

// failing stands for tests that end with a code.
type failing int

func (f failing) Run() int { return int(f) }

func TestMainInside(t *testing.T) {
	t.Parallel()
	if got := mountns.Main(failing(4)); got != 4 {
		t.Errorf("Main = %d, want the code of the tests, 4", got)
	}
}

func TestMoreNamespaces(t *testing.T) {
	t.Parallel()
	here, err := os.Readlink("/proc/self/ns/net")
	must(t, err)
	for who, adjust := range users() {
		t.Run(who, func(t *testing.T) {
			t.Parallel()
			out, code := start(t, "network", adjust).end(t)
			if code != 0 || out == here || !strings.HasPrefix(out, "net:") {
				t.Errorf("the network namespace is %q, code %d, want another one than %q", out, code, here)
			}
		})
	}
}

// must ends the test at an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
