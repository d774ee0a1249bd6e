package main

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// terminal is the terminal of an interactive shell.
type terminal struct {
	fd       int
	settings *unix.Termios
	// group is the foreground process group, which is this program's. It is 0 when another group is
	// in the foreground, or when the terminal does not control this session.
	group int
}

// terminalOf returns nil for a file that is not a terminal.
func terminalOf(f *os.File) *terminal {
	fd := int(f.Fd())
	settings, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		return nil
	}
	t := &terminal{fd: fd, settings: settings}
	if group, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP); err == nil && group == unix.Getpgrp() {
		t.group = group
	}
	return t
}

// attributes put a shell into the foreground, in its own process group. So Ctrl-C and Ctrl-Z reach
// the programs that run in the shell, and never the sandbox.
func (t *terminal) attributes() *syscall.SysProcAttr {
	if t.group == 0 {
		return nil
	}
	return &syscall.SysProcAttr{Foreground: true, Ctty: t.fd}
}

// takeBack restores the terminal after the shell. It ignores errors: a terminal that was closed
// needs nothing.
func (t *terminal) takeBack() {
	if t.group == 0 {
		return
	}
	// The kernel stops a background process that changes the terminal, unless the process ignores
	// this signal.
	signal.Ignore(unix.SIGTTOU)
	defer signal.Reset(unix.SIGTTOU)
	_ = unix.IoctlSetPointerInt(t.fd, unix.TIOCSPGRP, t.group)
	_ = unix.IoctlSetTermios(t.fd, unix.TCSETSW, t.settings)
}
