// Package lockdown takes from the running process what the driver never needs: capabilities, the
// way to new ones, and system calls, among them every way to start a program. An attacker who takes
// over a driver through its input has what the driver does anyway. Nothing of it can be undone.
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
//  1. A crash leaves no core, neither in a file nor to a program that the node has for them: memory
//     holds Secrets. Where files are forbidden already, and that may not be changed, the program
//     may get it, and logger hears of it.
//  2. Every thread keeps the capabilities in needed, of those it has, and can get no others.
//  3. No privilege can be gained by executing a file (no_new_privs).
//  4. The kernel refuses the calls in [refused], and ends the process at an attempt to execute a
//     program.
//
// A binary that is linked with C code, as the race detector is, has threads that Go does not know.
// It skips step 2, and logger hears of it. Any error means that the process is not locked down,
// perhaps halfway, and should not go on.
//
// Call it once, before there is work: it stops the world for a moment.
func Apply(logger klog.Logger) error { return apply(logger, needed) }

func apply(logger klog.Logger, keep capabilities) error {
	if err := forbidCores(logger); err != nil {
		return fmt.Errorf("forbid cores: %w", err)
	}
	err := cut(keep)
	switch {
	case errors.Is(err, syscall.ENOTSUP):
		logger.Info("The driver drops no capabilities: this binary is linked with C code (build it with CGO_ENABLED=0)")
	case err != nil:
		return fmt.Errorf("give up capabilities: %w", err)
	}
	if err := filterCalls(); err != nil {
		return fmt.Errorf("give up system calls: %w", err)
	}
	logger.Info("Locked down: no program can be started, and no privilege gained")
	return nil
}

// forbidCores takes step 1. To a limit of 1 the kernel gives neither a file, which begins with a
// page, nor what a program is piped: see core(5). A limit of 0 is for files only.
func forbidCores(logger klog.Logger) error {
	err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{Cur: 1, Max: 1})
	if !errors.Is(err, unix.EPERM) {
		return os.NewSyscallError("setrlimit", err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		return os.NewSyscallError("setrlimit", err) // It was no limit of 0 that is in the way.
	}
	logger.Info("A crash may leave a core to a program of the node's: the hard limit is 0 and cannot be made 1")
	return nil
}

// filterCalls takes steps 3 and 4. The kernel hands both from this thread to all others, or to
// none.
func filterCalls() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return os.NewSyscallError("prctl no_new_privs", err)
	}
	return install(program())
}
