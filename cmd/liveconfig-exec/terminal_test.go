package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

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

func onTerminal(screen *os.File) arrangement {
	return func(c *exec.Cmd) {
		c.Stdin = screen
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 0}
	}
}

// hasTerminal waits until the command of a process has the terminal.
func hasTerminal(t *testing.T, p *process, keyboard *os.File) {
	t.Helper()
	eventually(t, func() error {
		group, err := unix.IoctlGetInt(int(keyboard.Fd()), unix.TIOCGPGRP)
		if err != nil || !slices.Contains(childrenOf(p.Process.Pid), group) {
			return fmt.Errorf("the terminal is that of group %d, %w", group, err)
		}
		return nil
	})
}

// shell runs a script with liveconfig-exec as $0.
func shell(t *testing.T, script string) ([]byte, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", script, executable(t))
	cmd.Env = append(os.Environ(), beExec+"=1", "GORACE="+promptly)
	cmd.Stderr = os.Stderr
	return cmd.Output()
}
