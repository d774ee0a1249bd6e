// Package lockdown takes from the running process what the driver never needs: capabilities, the way to new ones, and
// system calls, among them every way to start a program. Whoever takes over a driver through what it reads is left with
// what the driver does anyway. Nothing of it can be undone.
//
// It does not know what the driver does with what it keeps.
package lockdown

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
	"k8s.io/klog/v2"
)

// Apply locks the process down, all threads of it, those that exist and those to come:
//
//  1. A crash writes no core file, unless the node has a program for them that ignores the limit: memory holds Secrets.
//  2. Every thread keeps the capabilities in needed, of those it has, and can get no others.
//  3. No privilege can be gained by executing a file (no_new_privs).
//  4. The kernel refuses the calls in [refused], and ends the process at an attempt to execute a program.
//
// A binary that is linked with C code, as the race detector is, has threads that Go does not know. It skips step 2, and
// logger hears of it. Any error means that the process is not locked down, perhaps halfway, and should not go on.
//
// Call it once, before there is work: it stops the world for a moment.
func Apply(logger klog.Logger) error { return apply(logger, needed) }

func apply(logger klog.Logger, keep capabilities) error {
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		return fmt.Errorf("forbid core files: %w", err)
	}
	err := cut(keep)
	switch {
	case errors.Is(err, syscall.ENOTSUP):
		logger.Info("All capabilities are kept: this binary is linked with C code (build it with CGO_ENABLED=0)")
	case err != nil:
		return fmt.Errorf("give up capabilities: %w", err)
	}
	if err := filterCalls(); err != nil {
		return fmt.Errorf("give up system calls: %w", err)
	}
	logger.Info("Locked down: no program can be started, and no privilege gained")
	return nil
}

// filterCalls takes steps 3 and 4. The kernel hands both from this thread to all others, or to none.
func filterCalls() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return os.NewSyscallError("prctl no_new_privs", err)
	}
	return install(program())
}
