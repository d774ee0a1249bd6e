package mountns_test

import (
	"os"
	"os/exec"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/liveconfig-csi/liveconfig/pkg/expect"
	"github.com/liveconfig-csi/liveconfig/pkg/files/mountns/programs"
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
			p.Prints(t, "ready")
			for _, sig := range []unix.Signal{unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2} {
				p.Sends(t, sig)
				p.Prints(t, sig.String())
			}
			p.Sends(t, unix.SIGTERM)
			p.Ends(t, "terminated\n", 0)
		})
	}
}

func TestTheInnerProcessDiesWithTheOuter(t *testing.T) {
	t.Parallel()
	p := start(t, "signals", unchanged)
	p.Prints(t, "ready")
	p.Sends(t, unix.SIGUSR1)
	p.Prints(t, "user defined signal 1")
	expect.NoError(t, p.Process.Kill())
	// The output ends when both processes have, because both hold it.
	p.Ends(t, "", -1)
}

func TestAnIgnoredSignalStaysIgnored(t *testing.T) {
	t.Parallel()
	p := start(t, "nohup", unchanged)
	p.Prints(t, "true") // The inner process ignores SIGHUP.
	p.Prints(t, "ready")
	p.Sends(t, unix.SIGHUP)
	p.Sends(t, unix.SIGUSR1)
	p.Prints(t, "user defined signal 1")
	p.Sends(t, unix.SIGTERM)
	p.Ends(t, "terminated\n", 0)
}

// TestAKeyIsHeardOnce types ^C on a terminal, which sends the signal to both processes.
func TestAKeyIsHeardOnce(t *testing.T) {
	t.Parallel()
	keyboard, screen := programs.OpenTerminal(t)
	p := start(t, "signals", programs.OnTerminal(screen))
	p.Prints(t, "ready")
	_, err := keyboard.WriteString("\x03")
	expect.NoError(t, err)
	p.Prints(t, "interrupt")
	p.Sends(t, unix.SIGTERM)
	p.Ends(t, "terminated\n", 0)
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
	p.Ends(t, "", 1)
	const want = "mountns: start again in a new mount namespace: fork/exec /proc/self/exe: no space left on device; " +
		"to allow it, run as root: sysctl -w user.max_mnt_namespaces=10000\n"
	if got := p.Stderr.String(); got != want {
		t.Errorf("standard error = %q, want %q", got, want)
	}
}
