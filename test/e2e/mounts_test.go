package e2e_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/test/kit/realnode"
)

// treeScript lists what a container sees below its mounts.
const treeScript = `cd / && find -L etc/app etc/missing etc/optional etc/file ! -path '*/..*' | sort | while read -r f; do ` +
	`if [ -d "$f" ]; then echo "$f/"; else echo "$f $(cat "$f")"; fi; done`

// podWithMountsBelow has volumes that break without mount points: one has a mount below, and one is mounted by subPaths that do
// not exist.
func podWithMountsBelow(namespace, name string) *corev1.Pod {
	of := func(name string, optional *bool) corev1.VolumeSource {
		return corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: name}, Optional: optional,
		}}
	}
	pod := boxPod(namespace, name, nil)
	pod.Annotations = map[string]string{api.Domain + "/volumes": "live"} // No controller makes it.
	pod.Spec.Volumes = []corev1.Volume{
		{Name: "config", VolumeSource: of("app", nil)},
		{Name: "parts", VolumeSource: of("app", nil)},
		{Name: "optional", VolumeSource: of("overrides", new(true))},
		{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
	}
	pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{
		{Name: "config", MountPath: "/etc/app"},
		{Name: "scratch", MountPath: "/etc/app/custom"},
		{Name: "scratch", MountPath: "/etc/app/deep/custom"},
		{Name: "parts", MountPath: "/etc/file", SubPath: "a"},
		{Name: "parts", MountPath: "/etc/missing", SubPath: "overrides.conf"},
		{Name: "optional", MountPath: "/etc/optional", SubPath: "overrides.conf"},
	}
	return pod
}

// TestMountsBelowAVolume: a pod with mounts below a volume, and with subPaths that no key provides, starts by the label of its
// namespace as it does without, with the same trees, and stays live over edits and a restart of the driver.
func TestMountsBelowAVolume(t *testing.T) {
	s := on(t, realnode.Containerd2())
	const change = "helm upgrade liveconfig deploy/chart --namespace " + driverNamespace + " --reset-then-reuse-values --set admission.volumes="
	t.Cleanup(func() {
		if _, err := s.Shell(context.Background(), change+"false"); err != nil {
			t.Error(err)
		}
	})
	s.run(t, s.Repo(), change+"true")
	namespace := s.namespace(t)
	s.putConfigMap(t, namespace, "conf", map[string]string{"a": "1"})
	s.putConfigMap(t, namespace, "app", map[string]string{"a": "1", "b": "1"})
	before := s.start(t, podWithMountsBelow(namespace, "before"))

	s.run(t, s.Repo(), "kubectl label namespace "+namespace+" liveconfig.internal/volumes=configMaps")
	s.awaitConversion(t, namespace)
	live := s.start(t, podWithMountsBelow(namespace, "live"))
	for i, v := range live.Spec.Volumes {
		if isOurs := v.CSI != nil; isOurs == (v.Name == "scratch") || before.Spec.Volumes[i].CSI != nil {
			t.Errorf("volume %s is %v, want the ConfigMaps alone to be ours", v.Name, v.VolumeSource)
		}
	}
	want := s.exec(t, before, "sh", "-c", treeScript)
	if diff := cmp.Diff(want, s.exec(t, live, "sh", "-c", treeScript)); diff != "" || want == "" {
		t.Errorf("what containers see (-in-tree +live):\n%s", diff)
	}

	s.exec(t, live, "sh", "-c", "echo mine > /etc/app/custom/mine")
	s.putConfigMap(t, namespace, "app", map[string]string{"a": "2", "b": "2", "overrides.conf": "late"})
	s.wantFile(t, live, "main", "/etc/app/a", "2")
	s.wantFile(t, live, "main", "/etc/file", "2")
	s.wantFile(t, live, "main", "/etc/app/custom/mine", "mine\n")
	s.wantEvent(t, live, "PathTaken", "key overrides.conf of configmap "+namespace+"/app at path overrides.conf")
	driver := s.driverPod(t)
	s.run(t, s.Repo(), "kubectl --namespace "+driverNamespace+" delete pod "+driver)
	s.awaitDriverAfter(t, driver)
	s.putConfigMap(t, namespace, "app", map[string]string{"a": "3", "b": "3"})
	s.wantFile(t, live, "main", "/etc/app/b", "3")
	s.wantFile(t, live, "main", "/etc/file", "3")
	s.wantFile(t, live, "main", "/etc/app/deep/custom/mine", "mine\n")
	const after = "etc/app/\netc/app/a 3\netc/app/b 3\netc/app/custom/\netc/app/custom/mine mine\netc/app/deep/\netc/app/deep/custom/\n" +
		"etc/app/deep/custom/mine mine\netc/file 3\netc/missing/\netc/optional/\n"
	if diff := cmp.Diff(after, s.exec(t, live, "sh", "-c", treeScript)); diff != "" {
		t.Errorf("what the container sees at last (-want +got):\n%s", diff)
	}
}
