package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// signalError is why a sandbox ends early.
type signalError struct{ signal syscall.Signal }

// Error says which signal it was.
func (e *signalError) Error() string { return "ended by signal: " + e.signal.String() }

// status is what a shell makes of a program that a signal has ended.
func (e *signalError) status() int { return 128 + int(e.signal) }

// fromKeyboard tells whether the signal usually comes from a key. A terminal sends it to the command as well.
func (e *signalError) fromKeyboard() bool { return e.signal == unix.SIGINT || e.signal == unix.SIGQUIT }

// untilSignal returns a context that ends with a [signalError] at the first signal that ends programs.
func untilSignal(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	signals := make(chan os.Signal, 8)
	// The command gets those that are ignored as such, for example SIGHUP under nohup.
	ends := slices.DeleteFunc([]os.Signal{unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM}, signal.Ignored)
	// Without this a reader of stderr that goes away would kill the program before it has removed anything.
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
		cancel(fmt.Errorf("the sandbox has ended"))
	}
}
