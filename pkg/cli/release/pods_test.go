package release

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
)

// TestPodsThatCount are those that run, or are about to, and whose volumes follow the object.
func TestPodsThatCount(t *testing.T) {
	t.Parallel()
	ended := corev1.ContainerStatus{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}}
	runs := corev1.ContainerStatus{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
	for name, tc := range map[string]struct {
		change func(*corev1.Pod)
		counts bool
	}{
		"one that runs":                {func(*corev1.Pod) {}, true},
		"one that starts":              {func(p *corev1.Pod) { p.Status = corev1.PodStatus{Phase: corev1.PodPending} }, true},
		"one that has no node":         {func(p *corev1.Pod) { p.Spec.NodeName, p.Status.Phase = "", corev1.PodPending }, false},
		"one of a Job that is done":    {func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }, false},
		"one of a Job that has failed": {func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }, false},
		"one that is being deleted":    {func(p *corev1.Pod) { p.DeletionTimestamp, p.Finalizers = new(metav1.Now()), []string{"a/b"} }, false},
		"one whose containers have ended for good": {func(p *corev1.Pod) {
			p.Spec.RestartPolicy, p.Status.ContainerStatuses = corev1.RestartPolicyNever, []corev1.ContainerStatus{ended, ended}
		}, false},
		"one of which a container runs": {func(p *corev1.Pod) {
			p.Spec.RestartPolicy, p.Status.ContainerStatuses = corev1.RestartPolicyNever, []corev1.ContainerStatus{ended, runs}
		}, true},
		"one whose containers start again": {func(p *corev1.Pod) {
			p.Spec.RestartPolicy, p.Status.ContainerStatuses = corev1.RestartPolicyAlways, []corev1.ContainerStatus{ended}
		}, true},
		"one whose volume never updates": {func(p *corev1.Pod) { p.Spec.Volumes[0].CSI.VolumeAttributes["updatePolicy"] = "Never" }, false},
		"one of whose volumes updates": {func(p *corev1.Pod) {
			never := p.Spec.Volumes[0].DeepCopy()
			never.Name, never.CSI.VolumeAttributes["updatePolicy"] = "other", "Never"
			p.Spec.Volumes = append(p.Spec.Volumes, *never)
		}, true},
		"one that selects it": {func(p *corev1.Pod) {
			p.Spec.Volumes[0].CSI.VolumeAttributes = map[string]string{"sources": "[{configMap: {labelSelector: {matchLabels: {app: web}}}}]"}
		}, true},
		"one that selects others": {func(p *corev1.Pod) {
			p.Spec.Volumes[0].CSI.VolumeAttributes = map[string]string{"sources": "[{configMap: {labelSelector: {matchLabels: {app: db}}}}]"}
		}, false},
		"one with a mistake":           {func(p *corev1.Pod) { p.Spec.Volumes[0].CSI.VolumeAttributes["x"] = "y" }, false},
		"one of another driver":        {func(p *corev1.Pod) { p.Spec.Volumes[0].CSI.Driver = "other.example" }, false},
		"one with a volume of another": {func(p *corev1.Pod) { p.Spec.Volumes[0].CSI.VolumeAttributes["configMap"] = "other" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := webPod("a", corev1.ConditionTrue)
			tc.change(p)
			pods, err := podsIn(t.Context(), fake.NewClientset(p), testDriver, "n")
			if err != nil {
				t.Fatal(err)
			}
			counts := len(pods) == 1 && pods[0].uses(api.Ref{Kind: api.ConfigMap, Namespace: "n", Name: "web"}, map[string]string{"app": "web"})
			if counts != tc.counts {
				t.Errorf("it counts: %t, want %t", counts, tc.counts)
			}
			if counts && len(pods[0].places) != 1 {
				t.Errorf("the volumes that follow the object are %v, want one", pods[0].places)
			}
		})
	}
}
