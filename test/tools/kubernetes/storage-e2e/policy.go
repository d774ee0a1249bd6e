package main

import (
	"context"
	_ "embed"
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

//go:embed policy.yaml
var policy []byte

// policyTimeout is how long the API server may take until it goes by a new policy. It looks for some every second.
const policyTimeout = 30 * time.Second

// makeReadOnly has the API server set readOnly in every volume of the driver that a test makes, until the tests are over.
func makeReadOnly(ctx context.Context) {
	client, err := framework.LoadClientset()
	framework.ExpectNoError(err, "connect to the API server")
	namespace, err := framework.CreateTestingNS(ctx, "storage-e2e", client, nil)
	framework.ExpectNoError(err, "create a namespace")
	ginkgo.DeferCleanup(client.CoreV1().Namespaces().Delete, namespace.Name, metav1.DeleteOptions{})

	name := "storage-e2e-" + string(framework.RunID)
	object := &admissionv1.MutatingAdmissionPolicy{}
	framework.ExpectNoError(yaml.UnmarshalStrict(policy, object), "read policy.yaml")
	object.Name = name
	policies := client.AdmissionregistrationV1().MutatingAdmissionPolicies()
	_, err = policies.Create(ctx, object, metav1.CreateOptions{})
	framework.ExpectNoError(err, "create the policy that makes volumes read-only")
	ginkgo.DeferCleanup(policies.Delete, name, metav1.DeleteOptions{})

	bindings := client.AdmissionregistrationV1().MutatingAdmissionPolicyBindings()
	_, err = bindings.Create(ctx, binding(name), metav1.CreateOptions{})
	framework.ExpectNoError(err, "bind the policy that makes volumes read-only")
	ginkgo.DeferCleanup(bindings.Delete, name, metav1.DeleteOptions{})

	err = wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, policyTimeout, true, func(ctx context.Context) (bool, error) {
		return isMadeReadOnly(ctx, client, namespace.Name)
	})
	framework.ExpectNoError(err, "wait for the API server to make volumes read-only")
}

// binding applies the policy to the namespaces that this run of the tests makes.
func binding(policy string) *admissionv1.MutatingAdmissionPolicyBinding {
	return &admissionv1.MutatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: policy},
		Spec: admissionv1.MutatingAdmissionPolicyBindingSpec{
			PolicyName: policy,
			MatchResources: &admissionv1.MatchResources{
				NamespaceSelector: metav1.AddLabelToSelector(&metav1.LabelSelector{}, "e2e-run", string(framework.RunID)),
			},
		},
	}
}

// isMadeReadOnly asks what would become of a pod that does not say readOnly.
func isMadeReadOnly(ctx context.Context, client kubernetes.Interface, namespace string) (bool, error) {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "asks"},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "main", Image: "none"}},
			Volumes: []corev1.Volume{{
				Name:         "config",
				VolumeSource: corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: driverName}},
			}},
		},
	}
	made, err := client.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err != nil {
		return false, err
	}
	readOnly := made.Spec.Volumes[0].CSI.ReadOnly
	return readOnly != nil && *readOnly, nil
}
