package e2e_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/liveconfig-csi/liveconfig/test/kit/expect"
	"github.com/liveconfig-csi/liveconfig/test/kit/realnode"
)

const (
	corePath = mountPath + "/file"
	readOnly = "Read-only file system"
	denied   = "Permission denied"
)

// wantOwner checks owner, group and mode of the file.
func (s *site) wantOwner(t *testing.T, pod *corev1.Pod, container, want string) {
	t.Helper()
	s.wantOutput(t, pod, container, want+"\n", "stat", "-L", "-c", "%u:%g %a", corePath)
}

// file makes a ConfigMap with the one key "file".
func (c core) file(t *testing.T, name, content string) {
	t.Helper()
	c.putConfigMap(t, c.ns, name, map[string]string{"file": content})
}

func (c core) ownedFiles() func() {
	t := c.t
	c.file(t, "owned", "one")
	const other = mountPath + "/other"
	pod := asUser1000(boxPod(c.ns, "owned", map[string]string{
		"configMap": "owned", "defaultMode": "0400", "defaultUser": "1000",
		"items": "[{key: file, path: file}, {key: file, path: other, user: 1001}]",
	}))
	pod.Spec.SecurityContext.FSGroup = new(int64(2000))
	pod.Spec.Containers = append(pod.Spec.Containers, box("second"))
	pod.Spec.Containers[1].SecurityContext = &corev1.SecurityContext{RunAsUser: new(int64(1001))}
	pod = c.create(t, pod)
	return func() {
		pod := c.awaitReady(t, pod)
		c.wantFile(t, pod, "main", corePath, "one")
		c.wantOwner(t, pod, "main", "1000:2000 400")
		c.wantRefused(t, pod, "second", denied, "cat", corePath)
		c.file(t, "owned", "two")
		c.wantFile(t, pod, "main", corePath, "two")
		c.wantOwner(t, pod, "main", "1000:2000 400")
		c.wantRefused(t, pod, "second", denied, "cat", corePath)
		c.wantFile(t, pod, "second", other, "two")
		c.wantOutput(t, pod, "second", "1001:2000 400\n", "stat", "-L", "-c", "%u:%g %a", other)
		c.wantRefused(t, pod, "main", denied, "cat", other)
	}
}

// namespacedPod is a pod whose users are others on the node.
func (c core) namespacedPod(t *testing.T) *corev1.Pod {
	t.Helper()
	c.file(t, "userns", "one")
	pod := asUser1000(boxPod(c.ns, "userns", map[string]string{"configMap": "userns", "defaultMode": "0400", "uid": "1000"}))
	pod.Spec.HostUsers = new(false)
	pod.Spec.Containers = append(pod.Spec.Containers, box("root"))
	pod.Spec.Containers[1].SecurityContext = &corev1.SecurityContext{RunAsUser: new(int64(0)), RunAsNonRoot: new(false)}
	return c.create(t, pod)
}

func (c core) userNamespace() func() {
	t := c.t
	pod := c.namespacedPod(t)
	return func() {
		pod := c.awaitReady(t, pod)
		users, err := c.Exec(t.Context(), pod, "main", "head", "-n", "1", "/proc/self/uid_map")
		expect.NoError(t, err)
		first := strings.Fields(users)
		if len(first) != 3 || first[0] != "0" || first[1] == "0" {
			t.Fatalf("the pod's users are %q, want others on the node", first)
		}
		c.wantOutput(t, pod, "main", "1000\n", "id", "-u")
		c.wantFile(t, pod, "main", corePath, "one")
		c.wantOwner(t, pod, "main", "1000:0 400")
		c.file(t, "userns", "two")
		c.wantFile(t, pod, "main", corePath, "two")
		c.wantOwner(t, pod, "main", "1000:0 400")
		c.wantNoWrites(t, pod, "root")
		c.wantOneMount(t, pod)
	}
}

// noUserNamespace: containerd before 2 and runc before 1.2 cannot map the users of mounts, and the kubelet reports that. The
// pod would be refused with any volume, or none.
func (c core) noUserNamespace() func() {
	t := c.t
	pod := c.namespacedPod(t)
	return func() { c.wantEvent(t, pod, "FailedCreatePodSandBox", "user namespace") }
}

func (c core) readOnlyMissing() func() {
	t := c.t
	c.file(t, "writable", "one")
	pod := boxPod(c.ns, "writable", map[string]string{"configMap": "writable"})
	pod.Spec.Volumes[0].CSI.ReadOnly = nil
	pod = c.create(t, pod)
	return func() {
		c.wantEvent(t, pod, "FailedMount", `add "readOnly: true" to its csi section`)
		mounts, err := c.Mounts(string(pod.UID) + "/volumes/kubernetes.io~csi")
		if err != nil || len(mounts) > 0 {
			t.Errorf("the volume that was refused is mounted: %q, %v", mounts, err)
		}
	}
}

func (c core) noWrites() func() {
	t := c.t
	c.file(t, "nowrites", "one")
	pod := c.create(t, boxPod(c.ns, "nowrites", map[string]string{"configMap": "nowrites", "updatePolicy": "Replace"}))
	return func() {
		pod := c.awaitReady(t, pod)
		c.wantOutput(t, pod, "", "0\n", "id", "-u")
		c.wantNoWrites(t, pod, "main")
	}
}

// wantNoWrites tries in a container what changes a volume.
func (s *site) wantNoWrites(t *testing.T, pod *corev1.Pod, container string) {
	t.Helper()
	for _, try := range []string{
		"echo changed >" + corePath, "echo new >" + mountPath + "/new", "rm " + corePath, "mkdir " + mountPath + "/dir",
		"mv " + corePath + " " + mountPath + "/moved", "chmod 777 " + mountPath, "ln -s file " + mountPath + "/link",
	} {
		s.wantRefused(t, pod, container, readOnly, "sh", "-c", try)
	}
}

// policies are all values of updatePolicy.
func policies() []string { return []string{"Atomic", "Replace", "InPlace", "Never"} }

// subPaths mounts one ConfigMap with each policy, both as a whole and by subPath.
func (c core) subPaths() func() {
	t := c.t
	c.file(t, "subpaths", "one")
	pod := boxPod(c.ns, "subpaths", nil)
	pod.Spec.Volumes, pod.Spec.Containers[0].VolumeMounts = nil, nil
	for _, policy := range policies() {
		name := strings.ToLower(policy)
		pod.Spec.Volumes = append(pod.Spec.Volumes, inline(name, map[string]string{"configMap": "subpaths", "updatePolicy": policy}))
		main := &pod.Spec.Containers[0]
		main.VolumeMounts = append(main.VolumeMounts,
			corev1.VolumeMount{Name: name, MountPath: "/whole/" + policy},
			corev1.VolumeMount{Name: name, MountPath: "/sub/" + policy, SubPath: "file"})
	}
	pod = c.create(t, pod)
	return func() {
		pod := c.awaitReady(t, pod)
		for _, policy := range policies() {
			c.wantFile(t, pod, "", "/sub/"+policy, "one")
		}
		// Each change has reached all volumes that follow before it is looked for in those that do not.
		for _, content := range []string{"two", "three"} {
			c.file(t, "subpaths", content)
			for _, path := range []string{"/whole/Atomic/file", "/whole/Replace/file", "/whole/InPlace/file", "/sub/InPlace"} {
				c.wantFile(t, pod, "", path, content)
			}
			for _, path := range []string{"/sub/Atomic", "/sub/Replace", "/sub/Never", "/whole/Never/file"} {
				if got := c.exec(t, pod, "cat", path); got != "one" {
					t.Errorf("%s has %q after a change, want what it had", path, got)
				}
			}
		}
		c.wantOneMount(t, pod)
	}
}

func (c core) initContainer() func() {
	t := c.t
	c.file(t, "init", "one")
	pod := asUser1000(boxPod(c.ns, "init", map[string]string{"configMap": "init"}))
	work := corev1.VolumeMount{Name: "work", MountPath: "/scratch"}
	first := corev1.Container{
		Name: "first", Image: realnode.BoxImage, Command: []string{"sh", "-c", "cp /early/file /scratch/copy"},
		VolumeMounts: []corev1.VolumeMount{{Name: "config", MountPath: "/early"}, work},
	}
	pod.Spec.InitContainers = []corev1.Container{first}
	pod.Spec.Containers[0].VolumeMounts = append(pod.Spec.Containers[0].VolumeMounts, work)
	empty := corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: "work", VolumeSource: empty})
	pod = c.create(t, pod)
	return func() {
		pod := c.awaitReady(t, pod)
		c.wantFile(t, pod, "", "/scratch/copy", "one")
		c.wantFile(t, pod, "", corePath, "one")
		c.file(t, "init", "two")
		c.wantFile(t, pod, "", corePath, "two")
		c.wantOneMount(t, pod)
	}
}

func (c core) twoContainers() func() {
	t := c.t
	c.file(t, "shared", "one")
	pod := boxPod(c.ns, "shared", map[string]string{"configMap": "shared"})
	pod.Spec.Containers = append(pod.Spec.Containers, box("second"))
	pod = c.create(t, pod)
	return func() {
		pod := c.awaitReady(t, pod)
		for _, content := range []string{"one", "two", "three"} {
			c.file(t, "shared", content)
			for _, container := range []string{"main", "second"} {
				c.wantFile(t, pod, container, corePath, content)
			}
		}
		// One file system: both see the same inode of the same device.
		var seen []string
		for _, container := range []string{"main", "second"} {
			inode, err := c.Exec(t.Context(), pod, container, "stat", "-L", "-c", "%d:%i", corePath)
			expect.NoError(t, err)
			seen = append(seen, inode)
		}
		if len(slices.Compact(seen)) != 1 {
			t.Errorf("the containers see different files: %q", fmt.Sprint(seen))
		}
		c.wantOneMount(t, pod)
	}
}
