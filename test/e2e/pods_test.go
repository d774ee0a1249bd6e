package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"

	"github.com/liveconfig-csi/liveconfig/test/kit/expect"
	"github.com/liveconfig-csi/liveconfig/test/kit/fixture"
	"github.com/liveconfig-csi/liveconfig/test/kit/realnode"
)

const (
	// startTimeout is how long a pod may take to be ready, on a busy machine and with a retry of the kubelet's.
	startTimeout = 90 * time.Second
	// changeTimeout is far more than a change takes, and less than the kubelet would take.
	changeTimeout = 20 * time.Second
	// goneTimeout is how long a pod may take to be gone.
	goneTimeout = 90 * time.Second
)

// namespace makes a namespace for a test. When the test ends the namespace is deleted, and the test fails unless its pods
// go and leave nothing on the node.
func (s *site) namespace(t *testing.T) string {
	t.Helper()
	name := "e2e-" + rand.String(6)
	namespaces := s.Client().CoreV1().Namespaces()
	_, err := namespaces.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	expect.NoError(t, err)
	s.awaitDefaults(t, name)
	t.Cleanup(func() {
		ctx := context.Background()
		if t.Failed() {
			events, err := s.Kubectl(ctx, "--namespace="+name, "get", "events", "--sort-by=.lastTimestamp")
			t.Logf("events of %s (%v):\n%s", name, err, events)
		}
		s.wantPodsGone(t, name)
		if err := namespaces.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	return name
}

// awaitDefaults waits for what the controller manager puts into a new namespace, and pods need.
func (s *site) awaitDefaults(t *testing.T, namespace string) {
	t.Helper()
	expect.Eventually(t, startTimeout, func() error {
		_, err := s.Client().CoreV1().ServiceAccounts(namespace).Get(t.Context(), "default", metav1.GetOptions{})
		if err != nil {
			return err
		}
		_, err = s.Client().CoreV1().ConfigMaps(namespace).Get(t.Context(), "kube-root-ca.crt", metav1.GetOptions{})
		return err
	})
}

// wantPodsGone deletes all pods of a namespace and checks that each goes and leaves nothing.
func (s *site) wantPodsGone(t *testing.T, namespace string) {
	t.Helper()
	ctx := context.Background()
	pods := s.Client().CoreV1().Pods(namespace)
	list, err := pods.List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Error(err)
		return
	}
	deployed := []string{"deployments", "statefulsets", "daemonsets", "jobs"}
	if _, err := s.Kubectl(ctx, "--namespace="+namespace, "delete", strings.Join(deployed, ","), "--all", "--wait=false"); err != nil {
		t.Error(err)
	}
	now := metav1.DeleteOptions{GracePeriodSeconds: new(int64(1))}
	if err := pods.DeleteCollection(ctx, now, metav1.ListOptions{}); err != nil {
		t.Error(err)
	}
	expect.Eventually(t, goneTimeout, func() error {
		left, err := pods.List(ctx, metav1.ListOptions{})
		if err == nil && len(left.Items) > 0 {
			err = fmt.Errorf("%d pods are still there, such as %s", len(left.Items), left.Items[0].Name)
		}
		return err
	})
	for _, pod := range list.Items {
		s.wantNothingOf(t, &pod)
	}
}

// wantNothingOf checks that a pod that is gone has left neither a mount nor a directory nor a record.
func (s *site) wantNothingOf(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	expect.Eventually(t, goneTimeout, func() error {
		mounts, err := s.Mounts(string(pod.UID))
		if err == nil && len(mounts) > 0 {
			err = fmt.Errorf("mounts of pod %s are left: %s", pod.Name, strings.Join(mounts, "\n"))
		}
		if err != nil {
			return err
		}
		dir := s.Root() + "/var/lib/kubelet/pods/" + string(pod.UID)
		if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("the directory of pod %s is left: %w", pod.Name, err)
		}
		return nil
	})
}

// create makes a pod and does not wait for it.
func (s *site) create(t testing.TB, pod *corev1.Pod) *corev1.Pod {
	t.Helper()
	created, err := s.Client().CoreV1().Pods(pod.Namespace).Create(t.Context(), pod, metav1.CreateOptions{})
	expect.NoError(t, err)
	return created
}

// start makes a pod and waits until it is ready.
func (s *site) start(t testing.TB, pod *corev1.Pod) *corev1.Pod {
	t.Helper()
	return s.awaitReady(t, s.create(t, pod))
}

// awaitReady waits until a pod is ready and returns it as it is then.
func (s *site) awaitReady(t testing.TB, pod *corev1.Pod) *corev1.Pod {
	t.Helper()
	var got *corev1.Pod
	expect.Eventually(t, startTimeout, func() (err error) {
		if got, err = s.Client().CoreV1().Pods(pod.Namespace).Get(t.Context(), pod.Name, metav1.GetOptions{}); err != nil {
			return err
		}
		return ready(got)
	})
	return got
}

// ready returns why a pod is not ready, if it is not.
func ready(pod *corev1.Pod) error {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue && pod.DeletionTimestamp == nil {
			return nil
		}
	}
	return fmt.Errorf("pod %s is not ready: %s %v", pod.Name, pod.Status.Phase, pod.Status.ContainerStatuses)
}

// delete deletes a pod and waits until it is gone, on the node as well.
func (s *site) delete(t testing.TB, pod *corev1.Pod) {
	t.Helper()
	pods := s.Client().CoreV1().Pods(pod.Namespace)
	err := pods.Delete(t.Context(), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(1))})
	if err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	expect.Eventually(t, goneTimeout, func() error {
		got, err := pods.Get(t.Context(), pod.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err) || err == nil && got.UID != pod.UID:
			return nil
		case err != nil:
			return err
		}
		return fmt.Errorf("pod %s is still there", pod.Name)
	})
}

// exec runs a command in a pod's first container and returns what it prints.
func (s *site) exec(t testing.TB, pod *corev1.Pod, command ...string) string {
	t.Helper()
	out, err := s.Exec(t.Context(), pod, "", command...)
	expect.NoError(t, err)
	return out
}

// wantFile waits until a file in a container has a content.
func (s *site) wantFile(t testing.TB, pod *corev1.Pod, container, path, want string) {
	t.Helper()
	expect.Eventually(t, changeTimeout, func() error {
		got, err := s.Exec(t.Context(), pod, container, "cat", path)
		if err == nil && got != want {
			err = fmt.Errorf("%s in container %q of %s has %q, want %q", path, container, pod.Name, got, want)
		}
		return err
	})
}

// wantEvent waits for an Event on a pod whose message has a text.
func (s *site) wantEvent(t testing.TB, pod *corev1.Pod, reason, text string) {
	t.Helper()
	expect.Eventually(t, startTimeout, func() error {
		selector := "involvedObject.uid=" + string(pod.UID) + ",reason=" + reason
		events, err := s.Client().CoreV1().Events(pod.Namespace).List(t.Context(), metav1.ListOptions{FieldSelector: selector})
		if err != nil {
			return err
		}
		var messages []string
		for _, e := range events.Items {
			if strings.Contains(e.Message, text) {
				return nil
			}
			messages = append(messages, e.Message)
		}
		return fmt.Errorf("no Event %s on pod %s has %q; there are %q", reason, pod.Name, text, messages)
	})
}

// putConfigMap makes a ConfigMap, or gives one that exists other data.
func (s *site) putConfigMap(t testing.TB, namespace, name string, data map[string]string) {
	t.Helper()
	expect.NoError(t, fixture.Put(t.Context(), s.Client().CoreV1().ConfigMaps(namespace), fixture.ConfigMap(name, data)))
}

// The place of the volume of [boxPod] in its container.
const mountPath = "/config"

// boxPod is a pod with a shell that does nothing, and one liveconfig volume of the attributes at [mountPath]. Tests change
// it before they start it.
func boxPod(namespace, name string, attributes map[string]string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: corev1.PodSpec{
			AutomountServiceAccountToken:  new(false),
			TerminationGracePeriodSeconds: new(int64(1)),
			Containers:                    []corev1.Container{box("main")},
			Volumes:                       []corev1.Volume{inline("config", attributes)},
		},
	}
}

// box is a container that does nothing until it is asked to end.
func box(name string) corev1.Container {
	return corev1.Container{
		Name: name, Image: realnode.BoxImage, Command: []string{"box", "pause"},
		VolumeMounts: []corev1.VolumeMount{{Name: "config", MountPath: mountPath}},
	}
}

// inline is a volume of the driver's.
func inline(name string, attributes map[string]string) corev1.Volume {
	source := &corev1.CSIVolumeSource{Driver: "csi.liveconfig.internal", ReadOnly: new(true), VolumeAttributes: attributes}
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{CSI: source}}
}
