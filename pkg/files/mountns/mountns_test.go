package mountns_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/liveconfig-csi/liveconfig/pkg/expect"
	"github.com/liveconfig-csi/liveconfig/pkg/files/mountns"
	"github.com/liveconfig-csi/liveconfig/pkg/files/mountns/programs"
)

const (
	// variable is how a process knows in which mount namespace it is meant to be.
	variable = "LIVECONFIG_MOUNT_NAMESPACE"
	// roleVariable makes the test binary play one of the roles instead of running tests.
	roleVariable = "MOUNTNS_TEST_ROLE"
)

// TestMain runs the tests inside, so that they may mount, and as a program that is started by them plays a role.
func TestMain(m *testing.M) {
	if name := os.Getenv(roleVariable); name != "" {
		os.Exit(play(name))
	}
	os.Exit(mountns.Main(m))
}

// start starts the test binary in a role, with a fresh start: it does not know that it is inside already. adjust may change it
// before.
func start(t *testing.T, role string, adjust func(*exec.Cmd)) *programs.Program {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 8*programs.Patience)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, "/proc/self/exe", "argument one", "two")
	env := slices.DeleteFunc(os.Environ(), func(kv string) bool { return strings.HasPrefix(kv, variable+"=") })
	// The race detector lets a program that ends wait for a second, which has no purpose here.
	cmd.Env = slices.Concat(env, []string{roleVariable + "=" + role, "GORACE=atexit_sleep_ms=0"})
	cmd.Dir = "/"
	adjust(cmd)
	return programs.Start(t, cmd)
}

func unchanged(*exec.Cmd) {}

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
					start(t, tc.role, func(c *exec.Cmd) {
						become(c)
						c.Stdin = strings.NewReader("input")
					}).Ends(t, tc.output, tc.code)
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
	expect.NoError(t, err)
	for who, adjust := range users() {
		t.Run(who, func(t *testing.T) {
			t.Parallel()
			out, code := start(t, "network", adjust).End(t)
			if code != 0 || out == here || !strings.HasPrefix(out, "net:") {
				t.Errorf("the network namespace is %q, code %d, want another one than %q", out, code, here)
			}
		})
	}
}
