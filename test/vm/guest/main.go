// Command guest is the first process of a virtual machine of the tests: it mounts what a node has, runs the steps of its plan,
// prints how each ended, and switches the machine off.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/liveconfig-csi/liveconfig/test/kit/vm"
)

func main() {
	run := runPlan
	if os.Getpid() == 1 {
		run = beFirst
	}
	if err := run(os.Stdout); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "guest:", err)
		os.Exit(1)
	}
}

// beFirst prepares the machine, has a child run the plan, and waits for orphans meanwhile.
func beFirst(console io.Writer) (err error) {
	defer func() {
		_, _ = fmt.Fprintln(console, "guest: the plan has ended:", err)
		_ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
	}()
	if err := prepare(); err != nil {
		return err
	}
	child, err := syscall.ForkExec("/init", []string{"guest"}, &syscall.ProcAttr{
		Env: []string{"PATH=/usr/bin:/bin:/sbin", "HOME=/root", "TMPDIR=/tmp", "TERM=linux"}, Files: []uintptr{0, 1, 2}, Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return err
	}
	for {
		ended, err := unix.Wait4(-1, nil, 0, nil)
		if ended == child || errors.Is(err, unix.ECHILD) {
			unix.Sync()
			return nil
		}
	}
}

// mounts are those of a node.
func mounts() []struct{ kind, at, options string } {
	return []struct{ kind, at, options string }{
		{"proc", "/proc", ""},
		{"sysfs", "/sys", ""},
		{"devtmpfs", "/dev", ""},
		{"devpts", "/dev/pts", ""},
		{"tmpfs", "/dev/shm", ""},
		{"tmpfs", "/tmp", "mode=1777"},
		{"tmpfs", "/run", ""},
		{"tmpfs", "/var", ""},
		{"cgroup2", "/sys/fs/cgroup", ""},
	}
}

func prepare() error {
	if err := moveRoot(); err != nil {
		return fmt.Errorf("mount a root: %w", err)
	}
	for _, m := range mounts() {
		if err := os.MkdirAll(m.at, 0o755); err != nil {
			return err
		}
		if err := unix.Mount(m.kind, m.at, m.kind, 0, m.options); err != nil {
			return fmt.Errorf("mount %s at %s: %w", m.kind, m.at, err)
		}
	}
	if err := unix.Mount("", "/", "", unix.MS_SHARED|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("share mounts, as systemd does: %w", err)
	}
	if err := switchControllersOn(); err != nil {
		return fmt.Errorf("switch the controllers of control groups on: %w", err)
	}
	if err := loopback(); err != nil {
		return fmt.Errorf("switch the loopback device on: %w", err)
	}
	return errors.Join(os.MkdirAll("/etc", 0o755), os.MkdirAll("/var/lib", 0o755), os.MkdirAll("/var/log", 0o755),
		os.WriteFile("/etc/passwd", []byte("root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n"), 0o644),
		os.WriteFile("/etc/group", []byte("root:x:0:\nnogroup:x:65534:\n"), 0o644),
		unix.Sethostname([]byte("guest")),
		os.WriteFile("/etc/hosts", []byte("127.0.0.1 localhost\n"), 0o644))
}

// moveRoot mounts the first file system on itself. The kernel's first mount cannot be exchanged, as container runtimes do with
// the root of a container.
func moveRoot() error {
	const root = "/root"
	if err := os.MkdirAll(root, 0o700); err != nil {
		return err
	}
	if err := unix.Mount("/", root, "", unix.MS_BIND, ""); err != nil {
		return err
	}
	if err := unix.Chdir(root); err != nil {
		return err
	}
	if err := unix.Mount(".", "/", "", unix.MS_MOVE, ""); err != nil {
		return err
	}
	return unix.Chroot(".")
}

func switchControllersOn() error {
	const root = "/sys/fs/cgroup/"
	controllers, err := os.ReadFile(root + "cgroup.controllers")
	if err != nil {
		return err
	}
	on := "+" + strings.Join(strings.Fields(string(controllers)), " +")
	return os.WriteFile(root+"cgroup.subtree_control", []byte(on), 0)
}

// loopback switches the device lo on.
func loopback() error {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(socket) }()
	request, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	request.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(socket, unix.SIOCSIFFLAGS, request)
}

// runPlan runs the steps. One that fails does not keep the others from being run.
func runPlan(console io.Writer) error {
	if busybox, err := exec.LookPath("/bin/busybox"); err == nil {
		if err := exec.Command(busybox, "--install", "-s", "/bin").Run(); err != nil { //nolint:noctx // It ends at once.
			return fmt.Errorf("install busybox: %w", err)
		}
	}
	data, err := os.ReadFile(vm.Plan)
	if err != nil {
		return err
	}
	var steps []vm.Step
	if err := json.Unmarshal(data, &steps); err != nil {
		return fmt.Errorf("%s: %w", vm.Plan, err)
	}
	for _, step := range steps {
		if _, err := fmt.Fprintln(console, vm.Begin+step.Name); err != nil {
			return err
		}
		begin := time.Now()
		result := vm.Result{Name: step.Name}
		if err := runStep(step); err != nil {
			result.Err = err.Error()
		}
		result.Took = time.Since(begin)
		line, err := json.Marshal(result)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(console, "\n%s%s\n", vm.End, line); err != nil {
			return err
		}
	}
	return nil
}

func runStep(step vm.Step) error {
	timeout := step.Timeout
	if timeout == 0 {
		timeout = 20 * time.Minute
	}
	ctx, cancel := context.WithTimeoutCause(context.Background(), timeout, fmt.Errorf("it took longer than %s", timeout))
	defer cancel()
	cmd := exec.CommandContext(ctx, step.Args[0], step.Args[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = step.Dir, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), step.Env...)
	cmd.WaitDelay = 5 * time.Second
	if !strings.Contains(step.Args[0], "/") {
		cmd.Path = filepath.Join("/bin", step.Args[0])
	}
	err := cmd.Run()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
