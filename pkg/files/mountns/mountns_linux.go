// Package mountns starts the running program again in a new mount namespace, so that tests and
// demonstrations make real mounts, as any user, and nothing of it shows or stays outside. A test
// package asks for it like this:
//
//	func TestMain(m *testing.M) { os.Exit(mountns.Main(m)) }
//
// It does not know what will be mounted, and the driver does not use it: the driver lives in the
// namespace that its container gives it.
package mountns

import (
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// variable marks a program that was started again, and every process that it starts. Its value is
// the name of a mount namespace; between the start and the moment the new namespace is ready it is
// the old one's, behind leaving.
const (
	variable = "LIVECONFIG_MOUNT_NAMESPACE"
	leaving  = "leaving "
)

// Namespace is another new namespace for the program, beside its mount namespace.
type Namespace uintptr

// Network is a network namespace with only a loopback device, which is down.
const Network Namespace = unix.CLONE_NEWNET

// Main runs a package's tests in a new mount namespace and returns the code to exit with. Where
// namespaces are not permitted it prints to standard error how to permit them, and fails.
func Main(m interface{ Run() int }, more ...Namespace) int {
	o, err := Reexec(more...)
	switch {
	case err != nil:
		fmt.Fprintf(os.Stderr, "mountns: %v\n", err)
		return 1
	case !o.Inside:
		return o.ExitCode
	}
	return m.Run()
}

// Outcome is what [Reexec] returns.
type Outcome struct {
	// Inside is true in the process that runs in the new namespace: it goes on with its work.
	Inside bool
	// ExitCode is for the process that is not Inside: the other one has ended, and it ends with the
	// same code, which is 128 and the signal's number if the other one died of a signal.
	ExitCode int
}

// Reexec starts the running program again, with the same arguments and standard files, in a mount
// namespace in which nothing that is mounted or unmounted shows outside, and the other way round,
// and in more namespaces if wanted. It returns in both processes.
//
// A process that may not mount (it lacks CAP_SYS_ADMIN) gets a user namespace as well, in which its
// user and group are 0 and no others exist. The first process passes on the signals it gets and
// waits; if it dies, the second is killed. Processes that are started inside, such as fuzz workers,
// stay there when they call Reexec.
//
// Call it first thing in main: whatever ran before runs twice. The error names what the system
// forbids and how to allow it; it may come up in either process.
func Reexec(more ...Namespace) (Outcome, error) {
	here, err := os.Readlink("/proc/self/ns/mnt")
	if err != nil {
		return Outcome{}, fmt.Errorf("find out the mount namespace (is /proc mounted?): %w", err)
	}
	before := os.Getenv(variable)
	switch {
	case before == here:
		return Outcome{Inside: true}, nil
	case strings.HasPrefix(before, leaving) && before != leaving+here:
		return settle(here)
	}
	return run(here, more)
}

// settle cuts the new namespace's ties to the old one, once: what is made shared inside later shall
// stay so.
func settle(here string) (Outcome, error) {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return Outcome{}, fmt.Errorf("make / private in a new mount namespace: %w%s", err, advice())
	}
	if err := os.Setenv(variable, here); err != nil {
		return Outcome{}, err
	}
	return Outcome{Inside: true}, nil
}

func run(here string, more []Namespace) (Outcome, error) {
	// The kernel kills the child when the thread that made it ends, not the process.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, toForward()...)
	child, err := start(here, more)
	if err != nil {
		signal.Stop(signals)
		return Outcome{}, fmt.Errorf("start again in a new mount namespace: %w%s", err, advice())
	}
	forwarded := make(chan struct{})
	go func() {
		defer close(forwarded)
		forward(signals, child)
	}()
	state, err := child.Wait()
	signal.Stop(signals)
	close(signals)
	<-forwarded
	if err != nil {
		return Outcome{}, fmt.Errorf("wait for the process in the new mount namespace: %w", err)
	}
	return Outcome{ExitCode: exitCode(state)}, nil
}

func start(here string, more []Namespace) (*os.Process, error) {
	env := slices.DeleteFunc(os.Environ(), func(kv string) bool { return strings.HasPrefix(kv, variable+"=") })
	// The link in /proc is right also when the program's file has been removed or replaced.
	return os.StartProcess("/proc/self/exe", os.Args, &os.ProcAttr{ //nolint:gosec // It is this very program.
		Env:   append(env, variable+"="+leaving+here),
		Files: []*os.File{os.Stdin, os.Stdout, os.Stderr},
		Sys:   namespaces(more),
	})
}

func namespaces(more []Namespace) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS, Pdeathsig: unix.SIGKILL}
	for _, n := range more {
		attr.Cloneflags |= uintptr(n)
	}
	if mayMount() {
		return attr
	}
	attr.Cloneflags |= unix.CLONE_NEWUSER
	attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
	attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	return attr
}

// mayMount reports whether this thread has CAP_SYS_ADMIN. Being user 0 is not enough: containers
// take it away from root.
func mayMount() bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	if err := unix.Capget(&header, &sets[0]); err != nil {
		return false
	}
	return sets[0].Effective&(1<<unix.CAP_SYS_ADMIN) != 0
}

// toForward returns the signals that people and programs send to end or to steer a process. One
// that is ignored, as SIGHUP under nohup, is left so, and the child inherits that.
func toForward() []os.Signal {
	all := []os.Signal{unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGUSR1, unix.SIGUSR2}
	return slices.DeleteFunc(all, signal.Ignored)
}

// forward passes signals on to the child until the channel is closed. A signal that comes too late
// for the child is of no use to anybody, so an error is dropped.
func forward(signals <-chan os.Signal, child *os.Process) {
	for sig := range signals {
		if !fromTerminal(sig) {
			_ = child.Signal(sig)
		}
	}
}

// fromTerminal reports whether sig came from the keyboard, as far as can be seen: then the terminal
// has sent it to the child too, and a second one would make a program that is stopping gracefully
// give up at once.
func fromTerminal(sig os.Signal) bool {
	if sig != unix.SIGINT && sig != unix.SIGQUIT {
		return false
	}
	tty, err := os.Open("/dev/tty")
	if err != nil {
		return false
	}
	defer tty.Close()
	foreground, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP)
	return err == nil && foreground == unix.Getpgrp()
}

func exitCode(state *os.ProcessState) int {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return state.ExitCode()
}
