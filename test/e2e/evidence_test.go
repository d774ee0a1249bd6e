package e2e_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liveconfig-csi/liveconfig/pkg/release"
	"github.com/liveconfig-csi/liveconfig/test/kit/expect"
	"github.com/liveconfig-csi/liveconfig/test/kit/realnode"
)

// TestAReleaseWaitsForFiles: an edit that no file has is not promoted, whatever the time. The driver does not run, or the edit
// has no key that an item of the pod needs. The release goes on when the driver reports the edit.
func TestAReleaseWaitsForFiles(t *testing.T) {
	s := on(t, realnode.Containerd2())
	s.withController(t)
	namespace := s.namespace(t)
	r := &released{site: s, namespace: namespace, pause: "1s"}
	r.edit(t, "a", "1")
	pod := s.start(t, boxPod(namespace, "web", map[string]string{"configMap": "web", "items": "[{key: a, path: a}]"}))
	r.await(t, "there is a stable copy", func(*corev1.ConfigMap) bool { return true })

	s.scheduleDriver(t, `{"liveconfig.test/nowhere": "yes"}`)
	expect.Eventually(t, goneTimeout, func() error {
		pids, err := s.Processes("liveconfig-driver")
		if err == nil && len(pids) > 0 {
			err = fmt.Errorf("the driver still runs")
		}
		return err
	})
	r.edit(t, "a", "2")
	r.wantHeld(t, pod, "no pod of it runs on the node")
	s.wantFile(t, pod, "", mountPath+"/a", "1")
	s.scheduleDriver(t, `{"liveconfig.test/nowhere": null}`)
	r.await(t, "it is promoted", func(m *corev1.ConfigMap) bool { return m.Data["a"] == "2" })
	s.wantFile(t, pod, "", mountPath+"/a", "2")

	r.edit(t, "renamed", "3")
	r.wantHeld(t, pod, "volume \"config\" is not current")
	s.wantFile(t, pod, "", mountPath+"/a", "2")
	r.edit(t, "a", "4")
	r.await(t, "it is promoted", func(m *corev1.ConfigMap) bool { return m.Data["a"] == "4" })
	s.wantFile(t, pod, "", mountPath+"/a", "4")
}

// released is the ConfigMap web of a namespace, which is released.
type released struct {
	*site

	namespace string
	pause     string // How long a step lasts.
}

// edit writes the ConfigMap with one key.
func (r *released) edit(t *testing.T, key, value string) {
	t.Helper()
	maps := r.Client().CoreV1().ConfigMaps(r.namespace)
	m := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Annotations: map[string]string{release.Annotation: "{steps: [1], pause: " + r.pause + "}"}},
		Data:       map[string]string{key: value},
	}
	_, err := maps.Update(t.Context(), m, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		_, err = maps.Create(t.Context(), m, metav1.CreateOptions{})
	}
	expect.NoError(t, err)
}

// await waits until the stable copy is so.
func (r *released) await(t *testing.T, what string, isSo func(*corev1.ConfigMap) bool) (copied *corev1.ConfigMap) {
	t.Helper()
	expect.Eventually(t, startTimeout, func() (err error) {
		copied, err = r.Client().CoreV1().ConfigMaps(r.namespace).Get(t.Context(), "web"+release.Suffix, metav1.GetOptions{})
		if err == nil && !isSo(copied) {
			err = fmt.Errorf("%s is awaited, and the stable copy has the data %v and the annotations %v", what, copied.Data, copied.Annotations)
		}
		return err
	})
	return copied
}

// wantHeld checks that a release waits for a pod, and goes on waiting.
func (r *released) wantHeld(t *testing.T, pod *corev1.Pod, why string) {
	t.Helper()
	isWaiting := func(m *corev1.ConfigMap) bool {
		e, err := release.ParseExposure(m.Annotations[release.ExposureAnnotation])
		return err == nil && e.State == release.Waiting && strings.Contains(e.Reason, why) &&
			strings.Contains(e.Reason, "pod "+pod.Name+" on node "+pod.Spec.NodeName)
	}
	before := r.await(t, "it waits: "+why, isWaiting)
	const several = 12 * time.Second // In which drivers are asked twice.
	<-time.After(several)
	if after := r.await(t, "it still waits: "+why, isWaiting); after.Data["a"] != before.Data["a"] {
		t.Errorf("the stable copy has %v, and had %v", after.Data, before.Data)
	}
}
