package main

import (
	"context"
	_ "embed"
	"slices"
	"time"

	"github.com/onsi/ginkgo/v2"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/kubernetes/test/e2e/framework"
	"sigs.k8s.io/yaml"
)

var (
	//go:embed policies/read-only.yaml
	readOnly []byte
	//go:embed policies/label.yaml
	label []byte
)

// policyTimeout is how long the API server may take until it goes by a new policy. It looks for some every second.
const policyTimeout = 30 * time.Second

// makeReadOnly has the API server set readOnly in every volume of the driver that a test makes, until the tests are over.
func makeReadOnly(ctx context.Context) {
	client, err := framework.LoadClientset()
	framework.ExpectNoError(err, "connect to the API server")
	install(ctx, client, "read-only", readOnly, admissionv1.MatchResources{NamespaceSelector: ofThisRun()})
	await(ctx, client, func(made *corev1.Pod) bool {
		csi := made.Spec.Volumes[0].CSI
		return csi.ReadOnly != nil && *csi.ReadOnly
	}, corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: driverName}})
}

// convertVolumes has the driver's own policy convert the volumes of all pods that a test makes, until the tests are over. The
// policy of the cluster converts pods of workloads, and others that ask for it. The tests make pods by themselves, so they get the
// same policy without that one condition: another policy could give pods the annotation too late, because the API server
// calls policies in no order.
func convertVolumes(ctx context.Context) {
	client, err := framework.LoadClientset()
	framework.ExpectNoError(err, "connect to the API server")
	policy, err := client.AdmissionregistrationV1().MutatingAdmissionPolicies().Get(ctx, driverPolicy, metav1.GetOptions{})
	framework.ExpectNoError(err, "get the policy of the driver")
	before := len(policy.Spec.MatchConditions)
	policy.Spec.MatchConditions = slices.DeleteFunc(policy.Spec.MatchConditions, func(c admissionv1.MatchCondition) bool {
		return c.Name == ofWorkloads
	})
	if len(policy.Spec.MatchConditions) != before-1 {
		framework.Failf("the policy %s has no condition %s", driverPolicy, ofWorkloads)
	}
	spec, err := yaml.Marshal(map[string]any{"spec": policy.Spec})
	framework.ExpectNoError(err, "write the policy of the driver")
	install(ctx, client, "label", label, admissionv1.MatchResources{ObjectSelector: ofThisRun()})
	install(ctx, client, "volumes", spec, admissionv1.MatchResources{NamespaceSelector: ofThisRun()})
	reference := corev1.LocalObjectReference{Name: "none"}
	await(ctx, client, func(made *corev1.Pod) bool {
		csi := made.Spec.Volumes[0].CSI
		return csi != nil && csi.Driver == driverName
	}, corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: reference}})
	watchConversions(client)
}

// The policy of the driver, and its condition about who makes a pod.
const (
	driverPolicy = "liveconfig-volumes"
	ofWorkloads  = "made-by-kubernetes-or-asked-for"
)

// ofThisRun selects the namespaces that this run of the tests makes.
func ofThisRun() *metav1.LabelSelector {
	return metav1.AddLabelToSelector(&metav1.LabelSelector{}, "e2e-run", string(framework.RunID))
}

// install installs a policy until the tests are over. What it is for is a part of its name.
func install(ctx context.Context, client kubernetes.Interface, what string, text []byte, match admissionv1.MatchResources) {
	object := &admissionv1.MutatingAdmissionPolicy{}
	framework.ExpectNoError(yaml.UnmarshalStrict(text, object), "read a policy")
	object.Name = "e2e-" + what + "-" + string(framework.RunID)
	policies := client.AdmissionregistrationV1().MutatingAdmissionPolicies()
	_, err := policies.Create(ctx, object, metav1.CreateOptions{})
	framework.ExpectNoError(err, "create the policy %s", object.Name)
	ginkgo.DeferCleanup(policies.Delete, object.Name, metav1.DeleteOptions{})

	bindings := client.AdmissionregistrationV1().MutatingAdmissionPolicyBindings()
	_, err = bindings.Create(ctx, &admissionv1.MutatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: object.Name},
		Spec:       admissionv1.MutatingAdmissionPolicyBindingSpec{PolicyName: object.Name, MatchResources: &match},
	}, metav1.CreateOptions{})
	framework.ExpectNoError(err, "bind the policy %s", object.Name)
	ginkgo.DeferCleanup(bindings.Delete, object.Name, metav1.DeleteOptions{})
}

// await waits until the API server makes of a pod with a volume what is wanted. It makes a new namespace for each try.
func await(ctx context.Context, client kubernetes.Interface, isSo func(*corev1.Pod) bool, v corev1.VolumeSource) {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "asks"},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "main", Image: "none"}},
			Volumes:    []corev1.Volume{{Name: "config", VolumeSource: v}},
		},
	}
	var made *corev1.Pod
	err := wait.PollUntilContextTimeout(ctx, time.Second, policyTimeout, true, func(ctx context.Context) (bool, error) {
		namespace, err := framework.CreateTestingNS(ctx, "storage-e2e", client, nil)
		if err != nil {
			return false, err
		}
		ginkgo.DeferCleanup(client.CoreV1().Namespaces().Delete, namespace.Name, metav1.DeleteOptions{})
		made, err = client.CoreV1().Pods(namespace.Name).Create(ctx, pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err == nil && isSo(made), err
	})
	framework.ExpectNoError(err, "wait until the API server goes by the policies; it makes of the pod: %v", made)
}
