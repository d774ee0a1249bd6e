package fakenodes_test

import (
	"errors"
	"os"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/test/kit/cluster"
	"github.com/liveconfig-csi/liveconfig/test/kit/fakenodes"
)

func TestMain(m *testing.M) { os.Exit(fakenodes.ForMain(m)) }

// theatre is a namespace of the shared cluster.
type theatre struct {
	*testing.T
	*fakenodes.Nodes

	cluster   *cluster.Cluster
	namespace string
}

func open(t *testing.T) theatre {
	t.Helper()
	stage := fakenodes.ForTest(t)
	c := cluster.ForTest(t)
	return theatre{T: t, Nodes: stage, cluster: c, namespace: cluster.NewNamespace(t, c)}
}

func (h theatre) await(wanted func([]*corev1.Pod) bool) {
	h.Helper()
	if err := h.Await(h.Context(), h.namespace, wanted); err != nil {
		h.Fatal(err)
	}
}

// readsWeb is a pod that makes variables of the ConfigMap web.
func readsWeb() corev1.PodSpec {
	return corev1.PodSpec{Containers: []corev1.Container{{
		Name: "main", Image: "none",
		EnvFrom: []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: "web"},
		}}},
	}}}
}

// crashes reports whether a pod is shown as one whose container crashes.
func crashes(pod *corev1.Pod) bool {
	statuses := pod.Status.ContainerStatuses
	return len(statuses) == 1 && statuses[0].State.Waiting != nil && statuses[0].State.Waiting.Reason == "CrashLoopBackOff"
}

// configMap makes a ConfigMap with one key, or edits it.
func (h theatre) configMap(name, value string) *corev1.ConfigMap {
	h.Helper()
	maps := h.cluster.Client().CoreV1().ConfigMaps(h.namespace)
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"key": value}}
	got, err := maps.Update(h.Context(), object, metav1.UpdateOptions{})
	if err != nil {
		got, err = maps.Create(h.Context(), object, metav1.CreateOptions{})
	}
	if err != nil {
		h.Fatal(err)
	}
	return got
}

func (h theatre) source(c *corev1.ConfigMap) fakenodes.Source {
	return fakenodes.Source{
		Ref: api.Ref{Kind: api.ConfigMap, Namespace: h.namespace, Name: c.Name},
		UID: string(c.UID), ResourceVersion: c.ResourceVersion, Data: c.Data,
	}
}

// pod makes a pod, and returns it when it is as wanted.
func (h theatre) pod(name string, spec corev1.PodSpec, wanted func(*corev1.Pod) bool) *corev1.Pod {
	h.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}
	if _, err := h.cluster.Client().CoreV1().Pods(h.namespace).Create(h.Context(), pod, metav1.CreateOptions{}); err != nil {
		h.Fatal(err)
	}
	return h.awaitPod(name, wanted)
}

func (h theatre) awaitPod(name string, wanted func(*corev1.Pod) bool) *corev1.Pod {
	h.Helper()
	var found *corev1.Pod
	h.await(func(pods []*corev1.Pod) bool {
		i := slices.IndexFunc(pods, func(pod *corev1.Pod) bool { return pod.Name == name && wanted(pod) })
		if i >= 0 {
			found = pods[i]
		}
		return i >= 0
	})
	return found
}

// waitsFor reports whether a pod is pending with a reason and a message.
func waitsFor(reason, message string) func(*corev1.Pod) bool {
	return func(pod *corev1.Pod) bool {
		statuses := pod.Status.ContainerStatuses
		return pod.Status.Phase == corev1.PodPending && len(statuses) == 1 && cmp.Equal(statuses[0].State.Waiting,
			&corev1.ContainerStateWaiting{Reason: reason, Message: message})
	}
}

// TestPodReadsItsObjectsWhenItStarts: a pod waits for what it needs, reads it once, and the next reads it again.
func TestPodReadsItsObjectsWhenItStarts(t *testing.T) {
	t.Parallel()
	h := open(t)
	waiting := h.pod("first", readsWeb(), waitsFor("CreateContainerConfigError", "configmap "+h.namespace+"/web does not exist"))
	if got := h.Config(waiting); got != nil {
		t.Errorf("config of a pod that waits = %v, want none", got)
	}
	one := h.configMap("web", "one")
	first := h.awaitPod("first", fakenodes.IsReady)
	two := h.configMap("web", "two")
	second := h.pod("second", readsWeb(), fakenodes.IsReady)
	// Both are looked at once more, after the edit.
	h.SetFails(h.namespace, func(*corev1.Pod) error { return errors.New("it has enough") })
	h.await(func(pods []*corev1.Pod) bool { return crashes(pods[0]) && crashes(pods[1]) })
	if err := h.cluster.Client().CoreV1().Pods(h.namespace).Delete(t.Context(), "first", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	h.await(func(pods []*corev1.Pod) bool { return len(pods) == 1 })

	if diff := cmp.Diff([]fakenodes.Source{h.source(one)}, h.Config(first)); diff != "" {
		t.Errorf("config of the first pod (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]fakenodes.Source{h.source(two)}, h.Config(second)); diff != "" {
		t.Errorf("config of the second pod (-want +got):\n%s", diff)
	}
}
