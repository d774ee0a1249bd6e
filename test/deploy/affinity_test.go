package deploy

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"sigs.k8s.io/yaml"
)

// TestVirtualNodes: the scheduler's own rules keep the driver's pods off nodes that run none, and off no other one.
func TestVirtualNodes(t *testing.T) {
	t.Parallel()
	var set appsv1.DaemonSet
	for _, object := range objects(t, template(t)) {
		if object["kind"] != "DaemonSet" {
			continue
		}
		document, err := yaml.Marshal(object)
		if err == nil {
			err = yaml.UnmarshalStrict(document, &set)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	affinity := nodeaffinity.GetRequiredNodeAffinity(&corev1.Pod{Spec: set.Spec.Template.Spec})
	tests := map[string]struct {
		labels map[string]string
		want   bool
	}{
		"a node":             {map[string]string{"kubernetes.io/os": "linux"}, true},
		"a node of EKS":      {map[string]string{"kubernetes.io/os": "linux", "eks.amazonaws.com/compute-type": "ec2"}, true},
		"Fargate":            {map[string]string{"kubernetes.io/os": "linux", "eks.amazonaws.com/compute-type": "fargate"}, false},
		"a virtual kubelet":  {map[string]string{"kubernetes.io/os": "linux", "type": "virtual-kubelet"}, false},
		"a node of Windows":  {map[string]string{"kubernetes.io/os": "windows"}, false},
		"a type of somebody": {map[string]string{"kubernetes.io/os": "linux", "type": "gpu"}, true},
	}
	for name, test := range tests {
		got, err := affinity.Match(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node", Labels: test.labels}})
		if err != nil || got != test.want {
			t.Errorf("%s takes the driver's pods: %t, %v, want %t", name, got, err, test.want)
		}
	}
}
