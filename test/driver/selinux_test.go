package driver

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
	"github.com/liveconfig-csi/liveconfig/test/kit/fixture"
)

const (
	// selinuxVariable says which of the states below this machine should be in.
	selinuxVariable = "LIVECONFIG_SELINUX"
	selinuxDir      = "/sys/fs/selinux"
	volumeLabel     = "system_u:object_r:container_file_t:s0"
	containerDomain = "system_u:system_r:container_t:s0:c1,c2"
)

// selinuxState is what SELinux does on a machine.
type selinuxState string

const (
	selinuxOff        selinuxState = "off"
	selinuxUnknown    selinuxState = "unknown" // It is on, and no policy knows the label of volumes.
	selinuxPermissive selinuxState = "permissive"
	selinuxEnforcing  selinuxState = "enforcing"
)

// TestLabelsOfVolumes runs in each state of SELinux. Where the policy knows the label of containers' files, all files of a volume
// have it, and a container's domain may read them. Where it does not, the driver says so and goes on without.
func TestLabelsOfVolumes(t *testing.T) {
	t.Parallel()
	state := stateOfSELinux(t)
	if want := os.Getenv(selinuxVariable); want != "" && want != string(state) {
		t.Fatalf("SELinux is %s here, want %s", state, want)
	}
	b := &rig{fixture.BareWithout(t)}
	b.Node = environment.NodeAsShippedWithout(t, b.Manifests, "--http-endpoint="+b.HTTP)
	refused := statusOf(b.Fixture, "").RefusedContext
	switch {
	case state == selinuxUnknown && !strings.Contains(refused, "invalid argument"):
		t.Errorf("/statusz has refusedContext %q, want the kernel's refusal", refused)
	case state != selinuxUnknown && refused != "":
		t.Errorf("/statusz has refusedContext %q, want none", refused)
	}
	b.WantNumber("liveconfig_selinux_context_refused", map[bool]float64{true: 1}[state == selinuxUnknown])

	pod := publish(b.Fixture, "web", "red")
	b.wantLabels(b.Path(pod, ""), state)
	b.UpdateConfigMap("web", map[string]string{"n": "green", "more": "1"})
	b.WantFile(pod, "n", "green")
	b.WantFile(pod, "more", "1")
	b.wantLabels(b.Path(pod, ""), state)
	if state == selinuxPermissive || state == selinuxEnforcing {
		b.wantReadable(b.Path(pod, ""), state)
	}
}

// stateOfSELinux asks the kernel whether SELinux is on, knows the label of volumes, and is enforcing.
func stateOfSELinux(t *testing.T) selinuxState {
	t.Helper()
	enforce, err := os.ReadFile(filepath.Join(selinuxDir, "enforce"))
	if errors.Is(err, fs.ErrNotExist) {
		return selinuxOff
	}
	must(t, err)
	kernel, err := os.ReadFile(filepath.Join(selinuxDir, "initial_contexts", "kernel"))
	must(t, err)
	if !bytes.ContainsRune(kernel, ':') {
		return selinuxUnknown // Before a policy is loaded, that is a name and no context.
	}
	switch err := os.WriteFile(filepath.Join(selinuxDir, "context"), []byte(volumeLabel), 0); {
	case errors.Is(err, unix.EINVAL):
		return selinuxUnknown
	case err != nil:
		t.Fatal(err)
	}
	if string(enforce) == "1" {
		return selinuxEnforcing
	}
	return selinuxPermissive
}

// wantLabels looks at all that is below the directory.
func (b *rig) wantLabels(dir string, state selinuxState) {
	b.T.Helper()
	isLabelled := state == selinuxPermissive || state == selinuxEnforcing
	entries := 0
	must(b.T, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		entries++
		var label [256]byte
		n, err := unix.Lgetxattr(path, "security.selinux", label[:])
		if got := string(bytes.TrimRight(label[:max(n, 0)], "\x00")); (got == volumeLabel) != isLabelled {
			b.T.Errorf("%s has the label %q (%v) where SELinux is %s", path, got, err, state)
		}
		return nil
	}))
	if entries < 4 {
		b.T.Errorf("%s has %d entries, want a volume's", dir, entries)
	}
}

// wantReadable wants that a container may read a volume and, where SELinux is enforcing, that it may not read the same file where
// it has no label of containers.
func (b *rig) wantReadable(volume string, state selinuxState) {
	b.T.Helper()
	if err := b.readInContainer(volume); err != nil {
		b.T.Errorf("a container cannot read the volume: %v", err)
	}
	unlabelled := b.T.TempDir()
	must(b.T, unix.Mount("tmpfs", unlabelled, "tmpfs", 0, ""))
	b.T.Cleanup(func() { must(b.T, unix.Unmount(unlabelled, 0)) })
	writeFile(b.T, filepath.Join(unlabelled, "n"), "green")
	if err := b.readInContainer(unlabelled); (err == nil) == (state == selinuxEnforcing) {
		b.T.Errorf("a container reads a file without a label of containers: %v, where SELinux is %s", err, state)
	}
}

// readInContainer has a process in a container's domain, whose root holds nothing but a shell and a directory, look into the
// file n.
func (b *rig) readInContainer(dir string) error {
	b.T.Helper()
	root := b.T.TempDir()
	must(b.T, unix.Mount("tmpfs", root, "tmpfs", 0, "context="+volumeLabel))
	b.T.Cleanup(func() { must(b.T, unix.Unmount(root, unix.MNT_DETACH)) })
	busybox, err := os.ReadFile("/bin/busybox")
	must(b.T, err)
	must(b.T, os.WriteFile(filepath.Join(root, "busybox"), busybox, 0o755))
	must(b.T, os.Mkdir(filepath.Join(root, "volume"), 0o755))
	must(b.T, unix.Mount(dir, filepath.Join(root, "volume"), "", unix.MS_BIND, ""))
	output, err := os.Create(filepath.Join(root, "output"))
	must(b.T, err)
	defer func() { must(b.T, output.Close()) }()
	cmd := exec.CommandContext(b.T.Context(), "/busybox", "grep", "green", "/volume/n")
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = output, output, output
	return startIn(cmd, containerDomain)
}

// startIn runs a command in a domain of SELinux.
func startIn(cmd *exec.Cmd, domain string) error {
	runtime.LockOSThread() // The next program's domain is a property of the thread.
	defer runtime.UnlockOSThread()
	next := fmt.Sprintf("/proc/self/task/%d/attr/exec", unix.Gettid())
	if err := os.WriteFile(next, []byte(domain), 0); err != nil {
		return err
	}
	err := cmd.Start()
	if err := os.WriteFile(next, nil, 0); err != nil {
		return err
	}
	if err != nil {
		return err
	}
	return cmd.Wait()
}
