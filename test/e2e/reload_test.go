package e2e_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/liveconfig-csi/liveconfig/pkg/release"
	"github.com/liveconfig-csi/liveconfig/test/kit/expect"
	"github.com/liveconfig-csi/liveconfig/test/kit/install"
	"github.com/liveconfig-csi/liveconfig/test/kit/realnode"
)

// TestAnEditThatTheProgramRefuses is taken back by itself: liveconfig-reload beside the program fails the pod's readiness, and the
// release follows. The program has read each good edit.
func TestAnEditThatTheProgramRefuses(t *testing.T) {
	s := on(t, realnode.Containerd2())
	s.withController(t)
	namespace := s.namespace(t)
	r := &released{site: s, namespace: namespace, pause: "10s"} // The kubelet probes each second.
	r.edit(t, "a", "one")
	pod := s.start(t, reloadedPod(namespace, "web", map[string]string{"configMap": "web"}))
	r.await(t, "there is a stable copy", func(*corev1.ConfigMap) bool { return true })

	r.edit(t, "a", "two")
	r.await(t, "it is promoted", func(m *corev1.ConfigMap) bool { return m.Data["a"] == "two" })
	s.wantAnswer(t, pod, "two")

	r.edit(t, "a", "bad three")
	r.await(t, "it is taken back", func(m *corev1.ConfigMap) bool {
		e, err := release.ParseExposure(m.Annotations[release.ExposureAnnotation])
		return err == nil && e.State == release.Reverted && m.Data["a"] == "two"
	})
	s.wantFile(t, pod, "", mountPath+"/a", "two")
	s.wantAnswer(t, pod, "two")

	r.edit(t, "a", "four")
	r.await(t, "it is promoted", func(m *corev1.ConfigMap) bool { return m.Data["a"] == "four" })
	s.wantAnswer(t, pod, "four")
}

// wantAnswer waits until the program of a pod works with a content.
func (s *site) wantAnswer(t *testing.T, pod *corev1.Pod, want string) {
	t.Helper()
	expect.Eventually(t, changeTimeout, func() error {
		got, err := s.Exec(t.Context(), pod, "main", "wget", "-qO-", "http://127.0.0.1:8080/")
		if err == nil && got != want {
			err = fmt.Errorf("the program works with %q, want %q", got, want)
		}
		return err
	})
}

// reloadedPod is a program that has to be asked to read its file, with liveconfig-reload as a native sidecar.
func reloadedPod(namespace, name string, attributes map[string]string) *corev1.Pod {
	pod := boxPod(namespace, name, attributes)
	pod.Spec.Containers[0].Command = []string{"box", "serve", mountPath + "/a"}
	pod.Spec.InitContainers = []corev1.Container{{
		Name: "reload", Image: install.DriverImage, RestartPolicy: new(corev1.ContainerRestartPolicyAlways),
		Command: []string{
			"/liveconfig-reload", "--watch=" + mountPath, "--http=POST http://127.0.0.1:8080/reload", "--verify=http://127.0.0.1:8080/", "--retries=0",
		},
		VolumeMounts: pod.Spec.Containers[0].VolumeMounts,
		ReadinessProbe: &corev1.Probe{
			PeriodSeconds: 1, FailureThreshold: 1,
			ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/readyz", Port: intstr.FromInt32(9533)}},
		},
	}}
	return pod
}
