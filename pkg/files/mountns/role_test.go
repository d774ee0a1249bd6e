package mountns_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/liveconfig-csi/liveconfig/pkg/files/mountns"
)

// play is the main function of a program that calls Reexec, and returns its exit code. The role names what it does
// inside. Whatever goes wrong is printed on standard error, with code 100.
func play(role string) int {
	switch role {
	case "main":
		return mountns.Main(failing(5))
	case "denied":
		return denied()
	case "network":
		return mountns.Main(printing("/proc/self/ns/net"), mountns.Network)
	case "nohup":
		if os.Getenv(variable) == "" { // The inner process has to inherit it.
			signal.Ignore(unix.SIGHUP)
		}
	}
	o, err := mountns.Reexec()
	switch {
	case err != nil:
		return fail(err)
	case !o.Inside:
		return o.ExitCode
	}
	code, err := inside(role)
	if err != nil {
		return fail(err)
	}
	return code
}

func fail(err error) int {
	fmt.Fprintln(os.Stderr, err)
	return 100
}

func inside(role string) (int, error) {
	var number int
	switch name, argument, _ := strings.Cut(role, " "); name {
	case "exit":
		_, err := fmt.Sscan(argument, &number)
		return number, err
	case "kill":
		if _, err := fmt.Sscan(argument, &number); err != nil {
			return 0, err
		}
		if err := unix.Kill(os.Getpid(), unix.Signal(number)); err != nil {
			return 0, err
		}
		select {} // The signal arrives.
	case "args":
		in, err := io.ReadAll(os.Stdin)
		fmt.Print(strings.Join(append(os.Args[1:], string(in)), "|"))
		return 0, err
	case "whoami":
		fmt.Print(os.Getuid(), os.Getgid())
		return 0, nil
	case "propagate":
		return 0, propagate()
	case "mount":
		return 0, unix.Mount("inner", "/proc/sys", "tmpfs", 0, "size=64k")
	case "stay":
		return 0, stay()
	case "where":
		return 0, where()
	case "shared":
		return 0, shared()
	case "signals":
		printSignals()
		return 0, nil
	case "nohup":
		fmt.Println(signal.Ignored(unix.SIGHUP))
		printSignals(unix.SIGUSR1, unix.SIGTERM)
		return 0, nil
	}
	return 0, fmt.Errorf("nobody knows the role %s", role)
}

// again calls Reexec as a program does that was not started inside, with another role.
func again(role string) (int, error) {
	err := errors.Join(os.Unsetenv(variable), os.Setenv(roleVariable, role))
	if err != nil {
		return 0, err
	}
	o, err := mountns.Reexec()
	return o.ExitCode, err
}

// propagate plays the system on which a program is started: / is shared, as on most. The namespace is its own, so that
// the real system is not in danger.
func propagate() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, ""); err != nil {
		return err
	}
	before, err := mounts()
	if err != nil {
		return err
	}
	code, err := again("mount")
	if err != nil || code != 0 {
		return fmt.Errorf("mount in another namespace: code %d, %w", code, err)
	}
	after, err := mounts()
	if err != nil {
		return err
	}
	if before != after {
		return fmt.Errorf("mounts before and after differ:\n%s\n\n%s", before, after)
	}
	// The other way round the same mount must show, or the test shows nothing.
	if err := unix.Mount("inner", "/proc/sys", "tmpfs", 0, "size=64k"); err != nil {
		return err
	}
	if after, err = mounts(); err != nil || before == after {
		return fmt.Errorf("a mount does not show in the mount table (%w)", err)
	}
	return nil
}

func mounts() (string, error) {
	table, err := os.ReadFile("/proc/self/mountinfo")
	return string(table), err
}

// stay starts a program inside, as go test starts fuzz workers.
func stay() error {
	here, err := os.Readlink("/proc/self/ns/mnt")
	if err != nil {
		return err
	}
	if err := os.Setenv(roleVariable, "where"); err != nil {
		return err
	}
	out, err := exec.Command("/proc/self/exe").Output() //nolint:noctx // A role has no context.
	if err != nil || string(out) != here {
		return fmt.Errorf("started inside, it is in %q, %w, want %q", out, err, here)
	}
	return nil
}

func where() error {
	here, err := os.Readlink("/proc/self/ns/mnt")
	fmt.Print(here)
	return err
}

// shared makes / shared and calls Reexec once more: inside, that must change nothing.
func shared() error {
	if err := unix.Mount("", "/", "", unix.MS_SHARED, ""); err != nil {
		return err
	}
	before, err := mounts()
	if err != nil {
		return err
	}
	if o, err := mountns.Reexec(); !o.Inside || err != nil {
		return fmt.Errorf("second Reexec = %+v, %w", o, err)
	}
	after, err := mounts()
	if err == nil && (before != after || !strings.Contains(after, "shared:")) {
		return fmt.Errorf("mounts before and after a second Reexec differ, or / is not shared:\n%s\n%s", before, after)
	}
	return err
}

// printSignals prints that it is ready, and prints the signals it gets, of those or of all, until it is asked to end.
func printSignals(those ...os.Signal) {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, those...)
	fmt.Println("ready")
	for sig := range signals {
		if sig == unix.SIGURG { // The Go runtime's own.
			continue
		}
		fmt.Println(sig)
		if sig == unix.SIGTERM {
			return
		}
	}
}

// printing is a package whose tests print where a link leads.
type printing string

// Run returns the exit code.
func (p printing) Run() int {
	target, err := os.Readlink(string(p))
	if err != nil {
		return fail(err)
	}
	fmt.Print(target)
	return 0
}

// denied runs where mount namespaces are forbidden.
func denied() int {
	if err := os.WriteFile("/proc/sys/user/max_mnt_namespaces", []byte("0"), 0); err != nil {
		return fail(err)
	}
	return mountns.Main(failing(5))
}
