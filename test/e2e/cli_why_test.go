package e2e_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/liveconfig-csi/liveconfig/test/kit/realnode"
)

// TestWhyAnEditStopped asks the driver of a real node: an edit arrives in one container, stops at the subPath mount of another,
// and stops when the object is gone.
func TestWhyAnEditStopped(t *testing.T) {
	s := on(t, realnode.Containerd2())
	namespace := s.namespace(t)
	p := plugin{site: s, namespace: namespace}
	s.putConfigMap(t, namespace, "web", map[string]string{"key": "old"})
	pod := boxPod(namespace, "web", map[string]string{"configMap": "web"})
	stale := box("stale")
	stale.VolumeMounts = []corev1.VolumeMount{{Name: "config", MountPath: "/etc/key", SubPath: "key"}}
	pod.Spec.Containers = append(pod.Spec.Containers, stale)
	pod = s.start(t, pod)
	s.putConfigMap(t, namespace, "web", map[string]string{"key": "new"})
	s.wantFile(t, pod, "main", mountPath+"/key", "new")

	wantLines := func(got result, status int, want ...string) {
		t.Helper()
		if got.status != status || strings.Count(got.out, "\n") > 10 {
			t.Errorf("exit %d, want %d, and ten lines at most:\n%s%s", got.status, status, got.out, got.err)
		}
		for _, text := range want {
			if !strings.Contains(got.out, text) {
				t.Errorf("the output does not have %q:\n%s%s", text, got.out, got.err)
			}
		}
	}
	wantLines(p.call(t, "why", "pod/web", mountPath+"/key"), 0,
		" edited configmap/web ", "the driver of node node received it", "driver may read it", "the edit is in the files of volume config",
		"container main sees it at "+mountPath, "the container sees the edit")
	wantLines(p.call(t, "why", "pod/web", "/etc/key"), 1, "STOP  mount", "container stale mounts /etc/key by subPath key")
	wantLines(p.call(t, "why", "pod/web"), 1, "STOP  mount", "kubectl delete pod web")
	s.run(t, s.Repo(), "kubectl delete configmap web --namespace "+namespace)
	wantLines(p.call(t, "why", "pod/web"), 1, "STOP  API server", "configmap/web does not exist")
}
