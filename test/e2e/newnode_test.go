package e2e_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liveconfig-csi/liveconfig/pkg/nodetaint"
	"github.com/liveconfig-csi/liveconfig/test/kit/expect"
	"github.com/liveconfig-csi/liveconfig/test/kit/realnode"
)

// TestNewNode: pods wait for a node when it comes. With the taint of docs/nodes.md none of them comes before the driver.
func TestNewNode(t *testing.T) {
	s := on(t, realnode.Containerd2())
	s.withController(t)
	const change = "helm upgrade liveconfig deploy/chart --namespace " + driverNamespace + " --reset-then-reuse-values --set controller.nodeTaint="
	t.Cleanup(func() {
		if _, err := s.Shell(context.Background(), change+"false"); err != nil {
			t.Error(err)
		}
	})
	s.run(t, s.Repo(), change+"true")
	namespace := s.namespace(t)
	s.putConfigMap(t, namespace, "web", map[string]string{"key": "value"})
	s.deploy(t, namespace)

	untainted := s.renew(t, namespace)
	t.Attr("new-node/without-the-taint", untainted.String())
	tainted := s.renew(t, namespace, corev1.Taint{Key: nodetaint.Key, Effect: corev1.TaintEffectNoExecute})
	t.Attr("new-node/with-the-taint", tainted.String())
	if tainted.failedMounts > 0 {
		t.Errorf("with the taint there are %d FailedMount Events, want none", tainted.failedMounts)
	}
	node, err := s.Client().CoreV1().Nodes().Get(t.Context(), realnode.NodeName, metav1.GetOptions{})
	if err != nil || slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == nodetaint.Key }) {
		t.Errorf("the taints of the node are %v, %v, want that ours is gone", node.Spec.Taints, err)
	}
}

// deploy creates a Deployment of one pod with a volume, and waits for it.
func (s *site) deploy(t *testing.T, namespace string) {
	t.Helper()
	labels := map[string]string{"app": "web"}
	pod := boxPod(namespace, "", map[string]string{"configMap": "web"})
	_, err := s.Client().AppsV1().Deployments(namespace).Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: pod.Spec},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s.awaitWeb(t, namespace)
}

// awaitWeb waits for the pod of the Deployment.
func (s *site) awaitWeb(t *testing.T, namespace string) (pod *corev1.Pod) {
	t.Helper()
	expect.Eventually(t, 2*startTimeout, func() error {
		pods, err := s.Client().CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "app=web"})
		if err != nil {
			return err
		}
		if len(pods.Items) != 1 {
			return fmt.Errorf("there are %d pods, want 1", len(pods.Items))
		}
		pod = &pods.Items[0]
		return ready(pod)
	})
	return pod
}

// arrival is how the first pod with a volume came to a new node.
type arrival struct {
	took         time.Duration // From the node that is ready to the container that runs, in whole seconds.
	failedMounts int
}

func (a arrival) String() string { return fmt.Sprintf("%s, %d FailedMount", a.took, a.failedMounts) }

// renew replaces the node by a new one, for which all pods wait.
func (s *site) renew(t *testing.T, namespace string, taints ...corev1.Taint) arrival {
	t.Helper()
	if err := s.PowerOff(); err != nil {
		t.Fatal(err)
	}
	if err := s.Renew(t.Context(), taints...); err != nil {
		t.Fatal(err)
	}
	// In a cluster of several nodes the controller runs on, and nobody waits for its lease. It may not have one yet.
	leases := s.Client().CoordinationV1().Leases(driverNamespace)
	if err := leases.Delete(t.Context(), "liveconfig-controller", metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	if err := s.PowerOn(t.Context()); err != nil {
		t.Fatal(err)
	}
	pod := s.awaitWeb(t, namespace)
	node, err := s.Client().CoreV1().Nodes().Get(t.Context(), realnode.NodeName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var a arrival
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			a.took = pod.Status.ContainerStatuses[0].State.Running.StartedAt.Sub(c.LastTransitionTime.Time)
		}
	}
	events, err := s.Client().CoreV1().Events(namespace).List(t.Context(), metav1.ListOptions{FieldSelector: "reason=FailedMount"})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events.Items {
		if e.InvolvedObject.UID == pod.UID {
			a.failedMounts += int(max(e.Count, 1))
		}
	}
	return a
}
