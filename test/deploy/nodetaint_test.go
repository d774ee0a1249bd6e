package deploy

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/liveconfig-csi/liveconfig/pkg/nodetaint"
	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
)

// taintedNode is a node that was created with our taint between others, with two effects.
const taintedNode = `
apiVersion: v1
kind: Node
metadata: {name: NODE, labels: {zone: a}}
spec:
  taints:
    - {key: example.org/first, effect: NoSchedule}
    - {key: liveconfig.internal/driver-not-ready, effect: NoExecute}
    - {key: example.org/last, value: "yes", effect: NoExecute}
    - {key: liveconfig.internal/driver-not-ready, effect: NoSchedule}
`

// registeredNode is what a kubelet writes when the driver registers.
const registeredNode = `
apiVersion: storage.k8s.io/v1
kind: CSINode
metadata: {name: NODE}
spec: {drivers: [{name: DRIVER, nodeID: NODE}]}
`

// driverPod is a pod on a node. The driver's pods have these labels.
const driverPod = `
apiVersion: v1
kind: Pod
metadata:
  name: NODE-driver
  namespace: NAMESPACE
  labels: {app.kubernetes.io/instance: NAMESPACE, app.kubernetes.io/component: COMPONENT}
spec:
  nodeName: NODE
  automountServiceAccountToken: false
  containers: [{name: driver, image: driver}]
`

// tainted is an installation whose controller removes the taint.
type tainted struct {
	*installed
	log string
}

// node creates a node, and what else there is of its driver.
func (in *tainted) node(t *testing.T, name string, more ...string) (node string) {
	t.Helper()
	node = in.namespace + "-" + name
	text := strings.Join(append([]string{taintedNode}, more...), "---\n")
	in.applyText(t, strings.NewReplacer("NODE", node, "NAMESPACE", in.namespace).Replace(text))
	t.Cleanup(func() {
		if err := in.cluster.Client().CoreV1().Nodes().Delete(context.WithoutCancel(t.Context()), node, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	return node
}

// setReady is what the kubelet does when the pod is ready, or is not.
func (in *tainted) setReady(t *testing.T, node string, status corev1.ConditionStatus) {
	t.Helper()
	patch := fmt.Sprintf(`{"status": {"conditions": [{"type": "Ready", "status": %q}]}}`, status)
	_, err := in.cluster.Client().CoreV1().Pods(in.namespace).Patch(
		t.Context(), node+"-driver", types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
	if err != nil {
		t.Fatal(err)
	}
}

func (in *tainted) taints(ctx context.Context, node string) ([]string, error) {
	n, err := in.cluster.Client().CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	var keys []string
	for _, taint := range n.Spec.Taints {
		keys = append(keys, taint.Key)
	}
	return keys, nil
}

// wantUntainted waits until a node has the other taints alone.
func (in *tainted) wantUntainted(t *testing.T, node string) {
	t.Helper()
	wantSoon(t, in.log, "wait until "+node+" has no taint of ours", func(ctx context.Context) (bool, error) {
		keys, err := in.taints(ctx, node)
		return err == nil && !slices.Contains(keys, nodetaint.Key), err
	})
	keys, err := in.taints(t.Context(), node)
	// The API server adds the last one to every new node.
	want := []string{"example.org/first", "example.org/last", corev1.TaintNodeNotReady}
	if err != nil || !slices.Equal(keys, want) {
		t.Errorf("the taints of %s are %q, %v, want %q", node, keys, err, want)
	}
}

// TestNodeTaint: a node loses our taint, and no other one, when the kubelet knows the driver and the
// driver's pod is ready, in whatever order that comes about.
func TestNodeTaint(t *testing.T) {
	in := &tainted{installed: installController(t, set("controller.nodeTaint=true"))}
	in.log = in.starts(t, environment.AsShipped(t, "liveconfig-controller"))
	const driver, component = "csi.liveconfig.internal", "driver"
	registered := strings.ReplaceAll(registeredNode, "DRIVER", driver)
	withPod := strings.ReplaceAll(driverPod, "COMPONENT", component)

	never := map[string]string{
		"unregistered": in.node(t, "unregistered", withPod),
		"other-driver": in.node(t, "other-driver", withPod, strings.ReplaceAll(registeredNode, "DRIVER", "csi.example.org")),
		"other-pod":    in.node(t, "other-pod", registered, strings.ReplaceAll(driverPod, "COMPONENT", "controller")),
		"not-ready":    in.node(t, "not-ready", registered, withPod),
	}
	for name, node := range never {
		if name != "not-ready" {
			in.setReady(t, node, corev1.ConditionTrue)
		}
	}
	in.setReady(t, never["not-ready"], corev1.ConditionFalse)

	readyLast := in.node(t, "ready-last", registered, withPod)
	in.setReady(t, readyLast, corev1.ConditionTrue)
	in.wantUntainted(t, readyLast)

	registeredLast := in.node(t, "registered-last", withPod)
	in.setReady(t, registeredLast, corev1.ConditionTrue)
	in.applyText(t, strings.ReplaceAll(registered, "NODE", registeredLast))
	in.wantUntainted(t, registeredLast)

	for _, node := range never {
		if keys, err := in.taints(t.Context(), node); err != nil || !slices.Contains(keys, nodetaint.Key) {
			t.Errorf("the taints of %s are %q, %v, want that it keeps ours", node, keys, err)
		}
	}
	in.setReady(t, never["not-ready"], corev1.ConditionTrue)
	in.wantUntainted(t, never["not-ready"])
}

// TestTheControllerMayDoNothingElseToNodes tries what somebody could who has the controller's token.
func TestTheControllerMayDoNothingElseToNodes(t *testing.T) {
	in := &tainted{installed: installController(t, set("controller.nodeTaint=true"))}
	node := in.node(t, "victim")
	config, err := in.cluster.ServiceAccountConfig(t.Context(), in.namespace, in.namespace+"-controller")
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	const ours = `{"op": "remove", "path": "/spec/taints/3"}, {"op": "remove", "path": "/spec/taints/1"}`
	patch := func(operations string) error {
		_, err := client.CoreV1().Nodes().Patch(t.Context(), node, types.JSONPatchType, []byte("["+operations+"]"), metav1.PatchOptions{})
		return err
	}
	tests := map[string]struct{ operations, want string }{
		"another taint":              {`{"op": "remove", "path": "/spec/taints/0"}`, "only remove the taint"},
		"all taints":                 {`{"op": "remove", "path": "/spec/taints"}`, "only remove the taint"},
		"another taint beside ours":  {ours + `, {"op": "remove", "path": "/spec/taints/0"}`, "only remove the taint"},
		"a taint more":               {ours + `, {"op": "add", "path": "/spec/taints/-", "value": {"key": "a", "effect": "NoExecute"}}`, "only remove the taint"},
		"a value of a taint":         {ours + `, {"op": "replace", "path": "/spec/taints/1/value", "value": "no"}`, "only remove the taint"},
		"a label":                    {ours + `, {"op": "add", "path": "/metadata/labels/a", "value": "b"}`, "not change the metadata"},
		"a label by itself":          {`{"op": "add", "path": "/metadata/labels/a", "value": "b"}`, "liveconfig controller may"},
		"an annotation":              {ours + `, {"op": "add", "path": "/metadata/annotations", "value": {"a": "b"}}`, "not change the metadata"},
		"a finalizer":                {ours + `, {"op": "add", "path": "/metadata/finalizers", "value": ["a.b/c"]}`, "not change the metadata"},
		"whether pods are scheduled": {ours + `, {"op": "add", "path": "/spec/unschedulable", "value": true}`, "nothing of a node's spec but its taints"},
		"which machine it is":        {ours + `, {"op": "add", "path": "/spec/providerID", "value": "a://b"}`, "nothing of a node's spec but its taints"},
		"the addresses of its pods":  {ours + `, {"op": "add", "path": "/spec/podCIDR", "value": "10.0.0.0/24"}`, "nothing of a node's spec but its taints"},
	}
	awaitPolicy(t, func() error { return patch(`{"op": "add", "path": "/metadata/labels/probe", "value": "b"}`) })
	for name, test := range tests {
		if err := patch(test.operations); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("to change %s = %v, want an error with %q", name, err, test.want)
		}
	}
	if err := client.CoreV1().Nodes().Delete(t.Context(), node, metav1.DeleteOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("to delete the node = %v, want that it is forbidden", err)
	}
	status := []byte(`{"status": {"capacity": {"cpu": "64"}}}`)
	_, err = client.CoreV1().Nodes().Patch(t.Context(), node, types.MergePatchType, status, metav1.PatchOptions{}, "status")
	if !apierrors.IsForbidden(err) {
		t.Errorf("to change the status of the node = %v, want that it is forbidden", err)
	}
	if err := patch(ours); err != nil {
		t.Errorf("to remove our taint = %v", err)
	}
	// Nobody else is held to that.
	admin := in.cluster.Client().CoreV1().Nodes()
	_, err = admin.Patch(t.Context(), node, types.MergePatchType, []byte(`{"spec": {"unschedulable": true}}`), metav1.PatchOptions{})
	if err != nil {
		t.Errorf("an administrator cordons a node: %v", err)
	}
}

// awaitPolicy waits until the API server, which learns of a policy a moment after it has taken it,
// refuses what the policy forbids.
func awaitPolicy(t *testing.T, try func() error) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 200*time.Millisecond, 30*time.Second, true, func(context.Context) (bool, error) {
		err := try()
		return err != nil && strings.Contains(err.Error(), "ValidatingAdmissionPolicy"), nil
	})
	if err != nil {
		t.Fatalf("the policy is not in force: %v", err)
	}
}
