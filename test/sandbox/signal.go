package main

import (
	"context"
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
