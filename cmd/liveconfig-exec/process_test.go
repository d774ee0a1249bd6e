package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/liveconfig-csi/liveconfig/pkg/expect"
	"github.com/liveconfig-csi/liveconfig/pkg/files/mountns/programs"
)

// TestExec: without a need to watch, the command has the process of liveconfig-exec.
func TestExec(t *testing.T) {
	t.Parallel()
	p := start(t, asAnother, nil, "who")
	p.Prints(t, fmt.Sprint(p.Process.Pid))
	p.Ends(t, "", 0)
}

func TestExitCodes(t *testing.T) {
	t.Parallel()
	for place, arrange := range places() {
		for _, action := range []string{"ignore", "restart", "signal:HUP", "exit"} {
			for role, want := range map[string]int{"exit 0": 0, "exit 1": 1, "exit 255": 255, "die 9": 137, "die 15": 143, "die 11": 139} {
				if action == "ignore" && strings.HasPrefix(role, "die") { // It dies itself, as far as the kernel lets it.
					continue
				}
				t.Run(place+" "+action+" "+role, func(t *testing.T) {
					t.Parallel()
					start(t, arrange, []string{"--on-change=" + action}, strings.Fields(role)...).Ends(t, "", want)
				})
			}
		}
	}
}

func TestSignalsArePassedOn(t *testing.T) {
	t.Parallel()
	for place, arrange := range places() {
		t.Run(place, func(t *testing.T) {
			t.Parallel()
			p := start(t, arrange, []string{"--on-change=restart"}, "show")
			p.isServing(t, "")
			for _, sig := range []syscall.Signal{
				unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2, unix.SIGWINCH, unix.SIGALRM, unix.SIGCONT,
				unix.SIGABRT, unix.SIGVTALRM, unix.SIGXCPU, unix.SIGXFSZ, unix.SIGIO, unix.SIGPWR, 35, 64,
			} {
				p.Sends(t, sig)
				p.Prints(t, sig.String())
			}
			p.terminates(t)
		})
	}
}

// hasChildren returns an error unless a process has so many children, and has waited for each that has ended.
func hasChildren(pid, want int) error {
	children := childrenOf(pid)
	for _, child := range children {
		if stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", child)); strings.Contains(string(stat), ") Z ") {
			return fmt.Errorf("child %d is a zombie", child)
		}
	}
	if len(children) != want {
		return fmt.Errorf("children = %v, want %d", children, want)
	}
	return nil
}

func killChild(pid int, name string) error {
	for _, child := range childrenOf(pid) {
		if comm, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", child)); strings.TrimSpace(string(comm)) == name {
			return unix.Kill(child, unix.SIGKILL)
		}
	}
	return fmt.Errorf("no child is called %s", name)
}

func TestOrphansAreWaitedFor(t *testing.T) {
	t.Parallel()
	for place, arrange := range places() {
		t.Run(place, func(t *testing.T) {
			t.Parallel()
			p := start(t, arrange, []string{"--on-change=restart"}, "leave")
			p.Prints(t, "left")
			p.Prints(t, "serving")
			expect.Eventually(t, programs.Patience, func() error { return hasChildren(p.Process.Pid, 2) })     // The command, and the orphan that lives.
			expect.Eventually(t, programs.Patience, func() error { return killChild(p.Process.Pid, "sleep") }) // The shell may not have become it yet.
			expect.Eventually(t, programs.Patience, func() error { return hasChildren(p.Process.Pid, 1) })
			p.terminates(t)
		})
	}
}

// TestTheCommandEndsWithItsSupervisor: nobody would restart it.
func TestTheCommandEndsWithItsSupervisor(t *testing.T) {
	t.Parallel()
	p := start(t, asAnother, []string{"--on-change=restart"}, "show")
	p.isServing(t, "")
	p.Sends(t, unix.SIGKILL)
	p.Prints(t, "terminated")
	p.Ends(t, "", -1)
}

// TestAnIgnoredSignalStaysIgnored, as under nohup.
func TestAnIgnoredSignalStaysIgnored(t *testing.T) {
	t.Parallel()
	script := `trap '' HUP; exec "$0" --on-change=restart -- /bin/sh -c 'kill -HUP $PPID $$; echo alive; exit 4'`
	p := start(t, asAnother, nil, "exit", "0")
	p.Ends(t, "", 0)
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", script, executable(t))
	cmd.Env = append(os.Environ(), beExec+"=1", "GORACE="+promptly)
	out, err := cmd.Output()
	if string(out) != "alive\n" || err == nil || !strings.Contains(err.Error(), "exit status 4") {
		t.Errorf("output = %q, %v, want alive and exit status 4", out, err)
	}
}

// TestAKeyIsHeardOnce types ^C on a terminal, from which the command may read.
func TestAKeyIsHeardOnce(t *testing.T) {
	t.Parallel()
	keyboard, screen := programs.OpenTerminal(t)
	p, dir := startIn(t, programs.OnTerminal(screen), []string{"--on-change=restart"}, "show", "A")
	for _, value := range []string{"1", "2"} {
		p.isServing(t, "A="+value)
		hasTerminal(t, p, keyboard)
		if _, err := keyboard.WriteString("\x03"); err != nil {
			t.Fatal(err)
		}
		p.printsNext(t, "interrupt")
		if value == "1" {
			write(t, dir, "A", "2")
			p.Prints(t, "terminated")
		}
	}
	p.terminates(t)
}

// TestTheTerminalComesBack to the process that had it before, also when the command cannot be started again: a shell reads on.
func TestTheTerminalComesBack(t *testing.T) {
	t.Parallel()
	keyboard, screen := programs.OpenTerminal(t)
	dir, link := t.TempDir(), filepath.Join(t.TempDir(), "command")
	write(t, dir, "A", "1")
	expect.NoError(t, os.Symlink(executable(t), link))
	inShell := func(c *exec.Cmd) {
		programs.OnTerminal(screen)(c)
		c.Args[slices.Index(c.Args, "--")+1] = link
		c.Args = append([]string{"sh", "-c", `"$@"; echo "over $?"; read line; echo "read $line"`, "sh", c.Path}, c.Args[1:]...)
		c.Path = "/bin/sh"
	}
	p := start(t, inShell, []string{"--from", dir, "--on-change=restart"}, "show", "A")
	p.isServing(t, "A=1")
	expect.NoError(t, os.Remove(link))
	write(t, dir, "A", "2")
	p.printsNext(t, "terminated")
	p.Prints(t, "over 127")
	if _, err := keyboard.WriteString("yes\n"); err != nil {
		t.Fatal(err)
	}
	p.Prints(t, "read yes")
	p.Ends(t, "", 0)
}

func isGone(pid int) error {
	if err := unix.Kill(pid, 0); !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("process %d is there: %w", pid, err)
	}
	return nil
}

// descendant returns the process that the command has started. It is gone when the test is over.
func descendant(t *testing.T, p process) int {
	t.Helper()
	pid, err := strconv.Atoi(p.Line(t))
	expect.NoError(t, err)
	t.Cleanup(func() {
		if isGone(pid) != nil {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	})
	p.Prints(t, "serving")
	return pid
}

// TestARestartClears what a command has left in its group, as the end of a container would.
func TestARestartClears(t *testing.T) {
	t.Parallel()
	for _, role := range []string{"", "deaf"} {
		p, dir := startIn(t, asAnother, []string{"--on-change=restart"}, "descendants", role)
		left := descendant(t, p)
		write(t, dir, "A", "2")
		p.Prints(t, "terminated")
		next := descendant(t, p)
		expect.Eventually(t, programs.Patience, func() error { return isGone(left) })
		if err := isGone(next); err == nil {
			t.Error("what the new command has started is gone as well")
		}
		p.terminates(t)
	}
}

// hasTerminal waits until the command of a process has the terminal.
func hasTerminal(t *testing.T, p process, keyboard *os.File) {
	t.Helper()
	expect.Eventually(t, programs.Patience, func() error {
		group, err := unix.IoctlGetInt(int(keyboard.Fd()), unix.TIOCGPGRP)
		if err != nil || !slices.Contains(childrenOf(p.Process.Pid), group) {
			return fmt.Errorf("the terminal is that of group %d, %w", group, err)
		}
		return nil
	})
}
