package driver

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
	"github.com/liveconfig-csi/liveconfig/test/kit/expect"
	"github.com/liveconfig-csi/liveconfig/test/kit/fixture"
)

// keeps are the capabilities that the driver keeps by docs/security/driver.md.
const keeps = 1<<unix.CAP_SYS_ADMIN | 1<<unix.CAP_CHOWN | 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_FOWNER | 1<<unix.CAP_FSETID

// TestTheProcessIsLockedDown looks at every thread of the driver as it ships, before and after it has done all of its
// work: no capability but those it keeps, no new privileges, and a filter of its system calls.
func TestTheProcessIsLockedDown(t *testing.T) {
	t.Parallel()
	b := &rig{fixture.BareWithout(t)}
	b.Node = environment.NodeAsShippedWithout(t, b.Manifests, "--http-endpoint="+b.HTTP)
	b.wantLockedDown()
	executable := b.executable()

	b.CreateConfigMap("web", map[string]string{"color": "red"})
	pods := b.ownedPods()
	for pod := range pods {
		b.Publish(pod)
	}
	for _, color := range []string{"green", "blue"} {
		b.UpdateConfigMap("web", map[string]string{"color": color, color: "1"})
		for pod, want := range pods {
			b.WantFile(pod, "color", color)
			b.WantFile(pod, color, "1")
			if got := b.owners(pod, ".", "color"); got != want {
				t.Errorf("after the update to %s, %s has %s, want %s", color, pod.Name, got, want)
			}
		}
	}
	for pod := range pods {
		b.Unpublish(pod)
		b.WantNoFile(pod, ".")
	}
	b.wantLockedDown()
	if now := b.executable(); now != executable {
		t.Errorf("the driver's program was %s and is %s", executable, now)
	}
}

// ownedPods returns pods whose volumes belong to somebody, and the result of owners for each. In an ordinary user's namespace
// there is nobody but root.
func (b *rig) ownedPods() map[*corev1.Pod]string {
	b.T.Helper()
	ids, err := os.ReadFile("/proc/self/uid_map")
	expect.NoError(b.T, err)
	uid, gid := 0, int64(0)
	if strings.Contains(string(ids), "4294967295") {
		uid, gid = 1000, 2000
	}
	pods := map[*corev1.Pod]string{}
	for _, policy := range []string{"Atomic", "Replace", "InPlace"} {
		attributes := map[string]string{"configMap": "web", "updatePolicy": policy, "defaultMode": "0400"}
		ofGroup := b.Pod("group-"+strings.ToLower(policy), attributes)
		ofUser := b.Pod("user-"+strings.ToLower(policy), maps.Clone(attributes))
		ofUser.Spec.Volumes[0].CSI.VolumeAttributes["defaultUser"] = strconv.Itoa(uid)
		for _, pod := range []*corev1.Pod{ofGroup, ofUser} {
			pod.Spec.SecurityContext = &corev1.PodSecurityContext{FSGroup: &gid}
		}
		pods[ofGroup] = fmt.Sprintf("0:%d 42755, 0:%d 100440", gid, gid)
		pods[ofUser] = fmt.Sprintf("%d:%d 40755, %d:%d 100400", uid, gid, uid, gid)
	}
	return pods
}

// owners returns owner, group, kind and mode of names in the pod's volume.
func (b *rig) owners(pod *corev1.Pod, names ...string) string {
	b.T.Helper()
	var all []string
	for _, name := range names {
		var st unix.Stat_t
		expect.NoError(b.T, unix.Stat(b.Path(pod, name), &st))
		all = append(all, fmt.Sprintf("%d:%d %o", st.Uid, st.Gid, st.Mode))
	}
	return strings.Join(all, ", ")
}

// executable returns which file the driver's process runs.
func (b *rig) executable() string {
	b.T.Helper()
	path, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", b.Node.PID()))
	if err != nil || filepath.Base(path) != "liveconfig-driver" {
		b.T.Fatalf("the driver's process runs %q, %v", path, err)
	}
	return path
}

// wantLockedDown checks every thread of the driver.
func (b *rig) wantLockedDown() {
	b.T.Helper()
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", b.Node.PID()))
	expect.NoError(b.T, err)
	seen := 0
	for _, task := range tasks {
		text, err := os.ReadFile(task)
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ESRCH): // The thread has ended.
			continue
		case err != nil:
			b.T.Fatal(err)
		}
		seen++
		if err := lockedDown(string(text)); err != nil {
			b.T.Errorf("%s: %v", task, err)
		}
	}
	if seen < 3 {
		b.T.Errorf("%d threads were looked at, want at least 3", seen)
	}
}

// lockedDown returns what a thread can do that it should not, by its status.
func lockedDown(status string) error {
	var wrong []error
	for name, want := range map[string]uint64{
		"CapInh": 0, "CapPrm": keeps, "CapEff": keeps, "CapBnd": keeps, "CapAmb": 0, "NoNewPrivs": 1, "Seccomp": 2,
	} {
		_, rest, _ := strings.Cut(status, "\n"+name+":")
		value, _, _ := strings.Cut(rest, "\n")
		got, err := strconv.ParseUint(strings.TrimSpace(value), 16, 64)
		if err != nil || got != want {
			wrong = append(wrong, fmt.Errorf("%s is %q, want %x", name, strings.TrimSpace(value), want))
		}
	}
	return errors.Join(wrong...)
}

const (
	// selinuxVariable names which of the states below this machine should be in.
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
// have it, and a container's domain may read them. Where it does not, the driver reports that and goes on without.
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
	expect.NoError(t, err)
	kernel, err := os.ReadFile(filepath.Join(selinuxDir, "initial_contexts", "kernel"))
	expect.NoError(t, err)
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
	expect.NoError(b.T, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
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
	expect.NoError(b.T, unix.Mount("tmpfs", unlabelled, "tmpfs", 0, ""))
	b.T.Cleanup(func() { expect.NoError(b.T, unix.Unmount(unlabelled, 0)) })
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
	expect.NoError(b.T, unix.Mount("tmpfs", root, "tmpfs", 0, "context="+volumeLabel))
	b.T.Cleanup(func() { expect.NoError(b.T, unix.Unmount(root, unix.MNT_DETACH)) })
	busybox, err := os.ReadFile("/bin/busybox")
	expect.NoError(b.T, err)
	expect.NoError(b.T, os.WriteFile(filepath.Join(root, "busybox"), busybox, 0o755))
	expect.NoError(b.T, os.Mkdir(filepath.Join(root, "volume"), 0o755))
	expect.NoError(b.T, unix.Mount(dir, filepath.Join(root, "volume"), "", unix.MS_BIND, ""))
	output, err := os.Create(filepath.Join(root, "output"))
	expect.NoError(b.T, err)
	defer func() { expect.NoError(b.T, output.Close()) }()
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
