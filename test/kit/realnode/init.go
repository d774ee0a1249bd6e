package realnode

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/liveconfig-csi/liveconfig/test/kit/process"
)

// initVariable turns a test program into the first process of a node. Its value is the machine's directory.
const initVariable = "LIVECONFIG_TEST_MACHINE_INIT"

// The node's own places, which a node that boots has again.
const (
	scratch   = "/run/machine"
	wholeProc = scratch + "/proc"
)

// bootTimeout is many times what a boot takes.
const bootTimeout = time.Minute

// sysctls are what a kubelet sets. They belong to the whole kernel: a node gets separate files in their place.
func sysctls() []string {
	return []string{
		"kernel/keys/root_maxbytes", "kernel/keys/root_maxkeys", "kernel/panic", "kernel/panic_on_oops",
		"vm/overcommit_memory", "vm/panic_on_oom",
	}
}

// startInit starts the node's first process and waits until its file systems are in place.
func (m *Node) startInit(ctx context.Context) (*process.Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	booted := m.path("booted")
	if err := os.RemoveAll(booted); err != nil {
		return nil, err
	}
	p, err := process.Start(context.WithoutCancel(ctx), process.Config{
		Path: self, Env: append(os.Environ(), initVariable+"="+m.dir.Path()), LogFile: m.log("init"),
		Namespaces: unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWUTS,
	})
	if err != nil {
		return nil, err
	}
	err = p.Await(ctx, bootTimeout, func(context.Context) error {
		_, err := os.Stat(booted)
		return err
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("boot: %w", err), p.Kill())
	}
	return p, nil
}

// beInit is the node's first process: it mounts the node's file systems and then waits for orphans until it is killed,
// and the rest of the node with it.
func beInit(dir string) int {
	if err := boot(dir); err != nil {
		fmt.Fprintln(os.Stderr, "boot:", err)
		return 1
	}
	for {
		_, err := unix.Wait4(-1, nil, 0, nil)
		if errors.Is(err, unix.ECHILD) {
			// Nobody is there yet. A child that comes is an orphan, so nothing reports it.
			time.Sleep(100 * time.Millisecond) //nolint:forbidigo // As said.
		}
	}
}

func boot(dir string) error {
	// Found before anything is mounted over it.
	logs, err := os.Open(filepath.Join(dir, "logs"))
	if err != nil {
		return err
	}
	defer func() { _ = logs.Close() }()
	const plain = unix.MS_NOSUID | unix.MS_NODEV
	for _, m := range []struct {
		source, target, kind string
		flags                uintptr
		data                 string
	}{
		{"", "/", "", unix.MS_REC | unix.MS_SHARED, ""}, // Mounts that a driver's container makes must reach the kubelet.
		{"proc", "/proc", "proc", plain | unix.MS_NOEXEC, ""},
		{"run", "/run", "tmpfs", plain, "mode=0755"},
		// With files of /proc covered, below, the kernel gives no other to a pod with a user namespace unless it sees a whole one.
		{"proc", wholeProc, "proc", plain | unix.MS_NOEXEC, ""},
	} {
		if err := os.MkdirAll(m.target, 0o755); err != nil {
			return err
		}
		if err := mount(m.source, m.target, m.kind, m.flags, m.data); err != nil {
			return err
		}
	}
	err = errors.Join(mountVarLib(dir), bind(fmt.Sprintf("/proc/self/fd/%d", logs.Fd()), "/var/log"), coverSysctls(dir),
		os.NewSyscallError("sethostname", unix.Sethostname([]byte(NodeName))))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "booted"), nil, 0o600)
}

// mountVarLib makes /var/lib writable without writing to this machine's, and puts the node's disk where kubelets have
// their directory.
func mountVarLib(dir string) error {
	const upper, work = scratch + "/upper", scratch + "/work"
	for _, d := range []string{upper, work} {
		if err := os.Mkdir(d, 0o755); err != nil {
			return err
		}
	}
	options := "lowerdir=/var/lib,upperdir=" + upper + ",workdir=" + work
	if err := mount("var-lib", "/var/lib", "overlay", 0, options); err != nil {
		return err
	}
	const kubelet = "/var/lib/kubelet"
	if err := os.MkdirAll(kubelet, 0o750); err != nil {
		return err
	}
	// Volumes would show at the disk's other place as well, if it shared its mounts with that.
	return errors.Join(bind(filepath.Join(dir, "kubelet"), kubelet),
		mount("", kubelet, "", unix.MS_PRIVATE, ""), mount("", kubelet, "", unix.MS_SHARED, ""))
}

func coverSysctls(dir string) error {
	for i, name := range sysctls() {
		target := filepath.Join("/proc/sys", name)
		value, err := os.ReadFile(target)
		if err != nil {
			return err
		}
		cover := filepath.Join(dir, "sysctl", fmt.Sprint(i))
		if err := os.WriteFile(cover, value, 0o600); err != nil {
			return err
		}
		if err := bind(cover, target); err != nil {
			return err
		}
	}
	return nil
}

func bind(source, target string) error {
	return mount(source, target, "", unix.MS_BIND|unix.MS_REC, "")
}

func mount(source, target, kind string, flags uintptr, data string) error {
	if err := unix.Mount(source, target, kind, flags, data); err != nil {
		return fmt.Errorf("mount %q on %s: %w", source, target, err)
	}
	return nil
}
