package e2e_test

import (
	"fmt"
	"regexp"
	"strings"
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

// reloadExample is the folder of the example with a program that refuses an edit.
const reloadExample = "reload"

// wantReasonOfRefusal has the pod of the example keep an edit that its program refuses, and wants `describe` to show why. Then it
// takes the edit back.
func (e *example) wantReasonOfRefusal(t *testing.T) {
	t.Helper()
	const edit = "kubectl patch configmap prometheus-reload --type=merge --patch "
	e.typeIn(t, "kubectl annotate configmap prometheus-reload --overwrite "+
		"liveconfig.internal/release='{steps: [1], pause: 10s, check: ready, onFailure: freeze}'\n"+
		edit+`'{"data":{"prometheus.yml":"global:\n  scrape_interval: late\n"}}'`)
	d := describer{plugin{site: e.site, namespace: e.namespace}}
	got := d.awaitDescribed(t, "pod/prometheus-reload", nil, "reload by reload: failed, for ",
		"Why: POST http://127.0.0.1:9090/-/reload: the answer is ", " is tried again")
	if !regexp.MustCompile(`reload by reload: failed, for \w+: content \d+ \(volume config, digest [0-9a-f]+\)\n`).MatchString(got) {
		t.Errorf("describe does not show which content failed:\n%s", got)
	}
	if strings.Contains(got, "scrape_interval") {
		t.Errorf("describe prints what is in files:\n%s", got)
	}
	e.typeIn(t, edit+`'{"data":{"prometheus.yml":"global:\n  scrape_interval: 30s\n"}}'`)
	d.awaitDescribed(t, "pod/prometheus-reload", nil, "reload by reload: the program works with content ")
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
