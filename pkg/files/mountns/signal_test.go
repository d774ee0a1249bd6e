package mountns_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func TestSignalsArePassedOn(t *testing.T) {
	t.Parallel()
	for user, become := range users() {
		t.Run(user, func(t *testing.T) {
			t.Parallel()
			p := start(t, "signals", func(c *exec.Cmd) {
				become(c)
				if c.SysProcAttr == nil {
					c.SysProcAttr = &syscall.SysProcAttr{}
				}
				c.SysProcAttr.Setsid = true // Without a terminal, so that no signal is taken to come from one.
			})
			for sig, want := range map[unix.Signal]string{
				unix.SIGHUP: "hangup", unix.SIGINT: "interrupt", unix.SIGQUIT: "quit",
				unix.SIGUSR1: "user defined signal 1", unix.SIGUSR2: "user defined signal 2",
			} {
				if got := nextAfter(t, p, sig); got != want {
					t.Errorf("%s arrived as %q, want %q", sig, got, want)
				}
			}
			must(t, p.Process.Signal(unix.SIGTERM))
			p.check(t, "terminated\n", 0)
		})
	}
}

// nextAfter sends a signal to a program that prints signals, when it is ready, and returns what it prints.
func nextAfter(t *testing.T, p *program, sig os.Signal) string {
	t.Helper()
	if !p.isReady {
		if got := p.line(t); got != "ready" {
			t.Fatalf("first line = %q, want ready", got)
		}
		p.isReady = true
	}
	must(t, p.Process.Signal(sig))
	return p.line(t)
}

func TestTheInnerProcessDiesWithTheOuter(t *testing.T) {
	t.Parallel()
	p := start(t, "signals", unchanged)
	if got := nextAfter(t, p, unix.SIGUSR1); got != "user defined signal 1" {
		t.Fatalf("line = %q", got)
	}
	must(t, p.Process.Kill())
	// The output ends when both processes have, because both hold it.
	if rest, code := p.end(t); rest != "" || code != -1 {
		t.Errorf("output and code = %q, %d, want nothing and death by signal", rest, code)
	}
}

func TestAnIgnoredSignalStaysIgnored(t *testing.T) {
	t.Parallel()
	p := start(t, "nohup", unchanged)
	if got := p.line(t); got != "true" {
		t.Errorf("the inner process ignores SIGHUP: %s, want true", got)
	}
	if got := p.line(t); got != "ready" {
		t.Fatalf("line = %q, want ready", got)
	}
	p.isReady = true
	must(t, p.Process.Signal(unix.SIGHUP))
	if got := nextAfter(t, p, unix.SIGUSR1); got != "user defined signal 1" {
		t.Errorf("line = %q, want that of the signal after the ignored one", got)
	}
	must(t, p.Process.Signal(unix.SIGTERM))
	p.check(t, "terminated\n", 0)
}

// TestAKeyIsHeardOnce types ^C on a terminal, which sends the signal to both processes.
func TestAKeyIsHeardOnce(t *testing.T) {
	t.Parallel()
	keyboard, screen := openTerminal(t)
	p := start(t, "signals", func(c *exec.Cmd) {
		c.Stdin = screen
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 0}
	})
	if got := p.line(t); got != "ready" {
		t.Fatalf("line = %q, want ready", got)
	}
	if _, err := keyboard.WriteString("\x03"); err != nil {
		t.Fatal(err)
	}
	if got := p.line(t); got != "interrupt" {
		t.Errorf("line = %q, want interrupt", got)
	}
	must(t, p.Process.Signal(unix.SIGTERM))
	p.check(t, "terminated\n", 0)
}

// openTerminal returns both ends of a new terminal.
func openTerminal(t *testing.T) (keyboard, screen *os.File) {
	t.Helper()
	keyboard, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	must(t, err)
	t.Cleanup(func() { _ = keyboard.Close() })
	number, err := unix.IoctlGetInt(int(keyboard.Fd()), unix.TIOCGPTN)
	must(t, err)
	must(t, unix.IoctlSetPointerInt(int(keyboard.Fd()), unix.TIOCSPTLCK, 0))
	screen, err = os.OpenFile(filepath.Join("/dev/pts", strconv.Itoa(number)), os.O_RDWR|unix.O_NOCTTY, 0)
	must(t, err)
	t.Cleanup(func() { _ = screen.Close() })
	return keyboard, screen
}

func TestAdviceWhereNamespacesAreForbidden(t *testing.T) {
	t.Parallel()
	// In its own user namespace the program may set limits that only root may set on the system.
	p := start(t, "denied", func(c *exec.Cmd) {
		c.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  unix.CLONE_NEWUSER,
			UidMappings: []syscall.SysProcIDMap{{HostID: os.Geteuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}},
		}
	})
	p.check(t, "", 1)
	const want = "mountns: start again in a new mount namespace: fork/exec /proc/self/exe: no space left on device; " +
		"to allow it, run as root: sysctl -w user.max_mnt_namespaces=10000\n"
	if got := p.stderr.String(); got != want {
		t.Errorf("standard error = %q, want %q", got, want)
	}
}
