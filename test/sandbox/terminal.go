package main

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// terminal is the one that a person types into.
type terminal struct {
	fd       int
	settings *unix.Termios
	// group is the process group that has the terminal, this program's. 0: the terminal is not the session's, or another
	// group has it.
	group int
}

// terminalOf returns nil for a file that is no terminal.
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

// attributes are those of a shell: it gets the terminal, in a process group of its own. So the keys that end or stop programs
// reach what runs in the shell, and never the sandbox.
func (t *terminal) attributes() *syscall.SysProcAttr {
	if t.group == 0 {
		return nil
	}
	return &syscall.SysProcAttr{Foreground: true, Ctty: t.fd}
}

// takeBack undoes what the shell has done to the terminal. One that is gone needs nothing, so there are no errors.
func (t *terminal) takeBack() {
	if t.group == 0 {
		return
	}
	// The kernel stops a process in the background that changes the terminal, unless it ignores this signal.
	signal.Ignore(unix.SIGTTOU)
	defer signal.Reset(unix.SIGTTOU)
	_ = unix.IoctlSetPointerInt(t.fd, unix.TIOCSPGRP, t.group)
	_ = unix.IoctlSetTermios(t.fd, unix.TCSETSW, t.settings)
}
