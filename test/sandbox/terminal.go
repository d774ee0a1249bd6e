package main

import (
	"context"
	"os"
	"os/signal"
	"slices"
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

// signalError is why a sandbox ends early.
type signalError struct{ signal syscall.Signal }

// Error says which signal it was.
func (e *signalError) Error() string { return "ended by signal: " + e.signal.String() }

// status is the exit status that a shell reports for a program that a signal has ended.
func (e *signalError) status() int { return 128 + int(e.signal) }

// fromKeyboard reports whether a key sends the signal. A terminal sends it to the command as well.
func (e *signalError) fromKeyboard() bool { return e.signal == unix.SIGINT || e.signal == unix.SIGQUIT }

// untilSignal returns a context that ends with a [signalError] at the first signal that ends
// programs.
func untilSignal(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	signals := make(chan os.Signal, 8)
	// A signal that is ignored, such as SIGHUP under nohup, stays so for the command too.
	ends := slices.DeleteFunc([]os.Signal{unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM}, signal.Ignored)
	// A reader of stderr that goes away must not end the program before the cluster is removed.
	signal.Notify(signals, append(ends, unix.SIGPIPE)...)
	go func() {
		for sig := range signals {
			if sig, ok := sig.(syscall.Signal); ok && sig != unix.SIGPIPE {
				cancel(&signalError{sig})
			}
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(signals)
		cancel(nil)
	}
}
