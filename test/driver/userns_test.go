package driver

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
	"github.com/liveconfig-csi/liveconfig/test/kit/expect"
	"github.com/liveconfig-csi/liveconfig/test/kit/fixture"
)

// TestRootOfAUserNamespace has CAP_SYS_ADMIN there, as a container has whose pod sets `hostUsers: false`, and a mount of a volume
// that is made as runc makes it. What it does to the mount and to the files, no volume of another service account shows. Volumes
// that share the files show it until the driver looks at them.
//
// Fault 58.
func TestRootOfAUserNamespace(t *testing.T) {
	t.Parallel()
	const done = "done"
	readOnly, denied, notPermitted, invalid := unix.EROFS.Error(), unix.EACCES.Error(), unix.EPERM.Error(), unix.EINVAL.Error()
	tests := map[string]struct {
		mount func(t *testing.T, users *os.File, target string) *os.File
		want  map[string]string
		harms bool
	}{
		// A mount table that a user namespace gets from another one has locks on its flags.
		"inherited": {
			mount: func(*testing.T, *os.File, string) *os.File { return nil },
			want: map[string]string{
				"remount": notPermitted, "set attributes": notPermitted, "change the file system": notPermitted,
				"write": readOnly, "change the mode": readOnly, "create": readOnly, "rename": readOnly,
				"mount over": done, "unmount that": done, "unmount": invalid,
			},
		},
		// A mount that is made outside and attached inside has none.
		"cloned": {
			mount: cloned,
			want: map[string]string{
				"remount": done, "set attributes": done, "change the file system": notPermitted,
				"write": denied, "change the mode": notPermitted, "create": denied, "rename": denied,
				"mount over": done, "unmount that": done, "unmount": done,
			},
		},
		// The kubelet asks for this one: root of the namespace owns the files of root.
		"mapped": {
			mount: mapped,
			want: map[string]string{
				"remount": done, "set attributes": done, "change the file system": notPermitted,
				"write": done, "change the mode": done, "create": done, "rename": done,
				"mount over": done, "unmount that": done, "unmount": done,
			},
			harms: true,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := &rig{fixture.Without(t, "--resync-interval=1h")} // The test has the driver look.
			b.CreateConfigMap("web", map[string]string{"color": "red", "size": "small"})
			attributes := map[string]string{"configMap": "web"}
			own, sibling, other := b.Pod("own", attributes), b.Pod("sibling", attributes), b.PodOf("other", "another", attributes)
			for _, pod := range []*corev1.Pod{own, sibling, other} {
				b.Publish(pod)
			}
			before, elsewhere := b.filesOf(sibling), b.filesOf(other)
			mounts := environment.Mounts(t, b.Node.KubeletDir())
			users := userNamespace(t)
			got := intrude(t, b.Node.Target(own, fixture.VolumeName), test.mount(t, users, b.Node.Target(own, fixture.VolumeName)))
			if name == "cloned" && isLoneUser() { // Root of the namespace owns the files, as if they were mapped.
				test = tests["mapped"]
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("root of the namespace (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(mounts, environment.Mounts(t, b.Node.KubeletDir())); diff != "" {
				t.Errorf("the mounts of the node have changed (-before +after):\n%s", diff)
			}
			if diff := cmp.Diff(elsewhere, b.filesOf(other)); diff != "" {
				t.Errorf("the volume of another service account has changed (-before +after):\n%s", diff)
			}
			if harmed := !cmp.Equal(before, b.filesOf(sibling)); harmed != test.harms {
				t.Errorf("that the files of the pod's own account have changed is %t, want %t:\n%s", harmed, test.harms,
					cmp.Diff(before, b.filesOf(sibling)))
			}
			expect.NoError(t, b.TryPublish(t.Context(), sibling)) // A repeat is a look.
			for _, pod := range []*corev1.Pod{own, sibling} {
				expect.Eventually(t, fixture.Soon, func() error {
					if diff := cmp.Diff(before, b.filesOf(pod)); diff != "" {
						return fmt.Errorf("%s after a look of the driver (-before +after):\n%s", pod.Name, diff)
					}
					return nil
				})
			}
			b.UpdateConfigMap("web", map[string]string{"color": "blue", "size": "small"})
			for _, pod := range []*corev1.Pod{own, sibling, other} {
				b.WantFile(pod, "color", "blue")
			}
		})
	}
}

// filesOf returns what a pod sees in its volume: the mode and the bytes of each file, whatever the names of generations are.
func (b *rig) filesOf(pod *corev1.Pod) map[string]string {
	b.T.Helper()
	files := map[string]string{}
	root := b.Node.Target(pod, fixture.VolumeName)
	generation, err := os.Readlink(filepath.Join(root, "..data"))
	expect.NoError(b.T, err)
	for _, dir := range []string{"", "..data"} {
		entries, err := os.ReadDir(filepath.Join(root, dir))
		expect.NoError(b.T, err)
		for _, entry := range entries {
			path := filepath.Join(root, dir, entry.Name())
			if entry.Name() == generation {
				continue
			}
			info, err := os.Stat(path)
			if errors.Is(err, os.ErrNotExist) { // A link that leads nowhere.
				files[filepath.Join(dir, entry.Name())] = "nothing"
				continue
			}
			expect.NoError(b.T, err)
			text := ""
			if info.Mode().IsRegular() {
				data, err := os.ReadFile(path)
				expect.NoError(b.T, err)
				text = string(data)
			}
			files[filepath.Join(dir, entry.Name())] = fmt.Sprintf("%s %s %s", entry.Type(), info.Mode(), text)
		}
	}
	return files
}

// cloned returns a copy of a mount that is attached nowhere.
func cloned(t *testing.T, _ *os.File, target string) *os.File {
	t.Helper()
	fd, err := unix.OpenTree(unix.AT_FDCWD, target, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	expect.NoError(t, err)
	file := os.NewFile(uintptr(fd), "a mount")
	t.Cleanup(func() { file.Close() })
	return file
}

// mapped is cloned with the users of a namespace.
func mapped(t *testing.T, users *os.File, target string) *os.File {
	t.Helper()
	file := cloned(t, users, target)
	expect.NoError(t, unix.MountSetattr(int(file.Fd()), "", unix.AT_EMPTY_PATH, &unix.MountAttr{
		Attr_set: unix.MOUNT_ATTR_IDMAP, Userns_fd: uint64(users.Fd()),
	}))
	return file
}

// isLoneUser reports whether there is one user only, as in the namespace that an ordinary user runs tests in.
func isLoneUser() bool {
	text, err := os.ReadFile("/proc/self/uid_map")
	fields := strings.Fields(string(text))
	return err != nil || len(fields) != 3 || fields[2] == "1"
}

// usersOf are the flags and maps of a new user namespace. That of a pod has none of the node's users, where it can.
func usersOf(flags uintptr) *syscall.SysProcAttr {
	first, count := 100_000, 1<<16
	if isLoneUser() {
		first, count = 0, 1
	}
	maps := []syscall.SysProcIDMap{{HostID: first, Size: count}}
	return &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWUSER | flags, UidMappings: maps, GidMappings: maps, Pdeathsig: unix.SIGKILL,
		Credential: &syscall.Credential{NoSetGroups: true}, // Root of the namespace.
	}
}

// userNamespace returns a user namespace with the maps of a pod's.
func userNamespace(t *testing.T) *os.File {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/bin/sleep", "infinity")
	cmd.SysProcAttr = usersOf(0)
	expect.NoError(t, cmd.Start())
	file, err := os.Open(fmt.Sprintf("/proc/%d/ns/user", cmd.Process.Pid))
	expect.NoError(t, errors.Join(err, cmd.Process.Kill()))
	_ = cmd.Wait() // It was killed.
	t.Cleanup(func() { file.Close() })
	return file
}

// intruderVariable, when set, makes the test binary act as a container. It is where the container sees the volume, and "at"
// before that for a mount that the container has to attach first.
const (
	intruderVariable = "LIVECONFIG_INTRUDER"
	attachAt         = "at "
)

// intrude runs the container, and returns what came of each thing that it tried. Without a mount it sees the one on the target,
// which is mounted on its path too before its namespaces are made.
func intrude(t *testing.T, target string, mount *os.File) map[string]string {
	t.Helper()
	path := t.TempDir()
	expect.NoError(t, errors.Join(os.Chmod(filepath.Dir(path), 0o755), os.Chmod(path, 0o755))) // Other users can reach it.
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe")
	cmd.Env = append(os.Environ(), intruderVariable+"="+path)
	cmd.SysProcAttr = usersOf(syscall.CLONE_NEWNS)
	if mount != nil {
		cmd.ExtraFiles = []*os.File{mount}
		cmd.Env = append(os.Environ(), intruderVariable+"="+attachAt+path)
	} else {
		expect.NoError(t, unix.Mount(target, path, "", unix.MS_BIND, ""))
		defer func() { expect.NoError(t, unix.Unmount(path, 0)) }()
	}
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	output, err := cmd.Output()
	if err != nil {
		t.Fatalf("the container: %v\n%s", err, complaint.String())
	}
	var results map[string]string
	expect.NoError(t, json.Unmarshal(output, &results))
	return results
}

// runIntruder is what the container does. It returns the code to exit with.
func runIntruder(value string) int {
	path := strings.TrimPrefix(value, attachAt)
	if err := enterContainer(value); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	results := map[string]string{}
	for _, try := range tries(path) {
		results[try.name] = "done"
		var errno unix.Errno
		if err := try.do(); errors.As(err, &errno) {
			results[try.name] = errno.Error()
		} else if err != nil {
			results[try.name] = err.Error()
		}
	}
	if err := json.NewEncoder(os.Stdout).Encode(results); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// enterContainer makes changes to mounts stay inside, and attaches the mount that was passed, if one was.
func enterContainer(value string) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return fmt.Errorf("make / a slave: %w", err)
	}
	path, isPassed := strings.CutPrefix(value, attachAt)
	if !isPassed {
		return nil
	}
	const passed = 3 // The first of a command's extra files.
	if err := unix.MoveMount(passed, "", unix.AT_FDCWD, path, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("attach the mount to %s: %w", path, err)
	}
	return nil
}

// try is something that no container should be able to do.
type try struct {
	name string
	do   func() error
}

func tries(path string) []try {
	live := filepath.Join(path, "..data")
	change := func(attr unix.MountAttr) error { return unix.MountSetattr(unix.AT_FDCWD, path, 0, &attr) }
	return []try{
		{"change the file system", func() error { return unix.Mount("", path, "", unix.MS_REMOUNT, "size=1g") }},
		{"remount", func() error { return unix.Mount("", path, "", unix.MS_REMOUNT|unix.MS_BIND, "") }},
		{"set attributes", func() error {
			return errors.Join(
				change(unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}), change(unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY}))
		}},
		{"write", func() error { return os.WriteFile(filepath.Join(live, "color"), []byte("black"), 0) }},
		{"change the mode", func() error { return os.Chmod(filepath.Join(live, "color"), 0o777) }},
		{"create", func() error { return os.WriteFile(filepath.Join(path, "new"), nil, 0o600) }},
		{"rename", func() error { return os.Rename(filepath.Join(live, "size"), filepath.Join(live, "length")) }},
		{"mount over", func() error { return unix.Mount("tmpfs", path, "tmpfs", 0, "") }},
		{"unmount that", func() error { return unix.Unmount(path, 0) }},
		{"unmount", func() error { return unix.Unmount(path, unix.MNT_DETACH) }},
	}
}
