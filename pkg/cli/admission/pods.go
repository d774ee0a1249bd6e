package admission

import (
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liveconfig-csi/liveconfig/pkg/cli/mounts"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/selection"
)

// The values of the annotation of a pod. The first keeps the volumes of the pod. The second
// converts them even if the pod has no controller of Kubernetes.
const (
	optOut = "none"
	optIn  = "live"
)

// mirror is the annotation of the API server's image of a static pod.
const mirror = "kubernetes.io/config.mirror"

// reasonForPod returns why pods keep all their volumes, or "".
func (p Policy) reasonForPod(w selection.Workload) string {
	annotations, spec := w.Template.Annotations, &w.Template.Spec
	_, isStatic := annotations[mirror]
	switch {
	case annotations[Label] == optOut:
		return fmt.Sprintf("the pod has the annotation %s: %s", Label, optOut)
	case isStatic:
		return "it is a static pod, which the kubelet makes from a file"
	case osOf(spec) != corev1.Linux:
		return fmt.Sprintf("the pod is for %s", osOf(spec))
	case annotations[Label] != optIn && !hasController(w):
		return fmt.Sprintf("no ReplicaSet, StatefulSet, DaemonSet or Job makes the pod, so it stays as it was applied: "+
			"the annotation %s: %s on the pod makes its volumes live", Label, optIn)
	}
	if items := itemsOf(spec); items > mostItems {
		return fmt.Sprintf("the volumes of the pod list %d items, and the API server converts at most %d: use kubectl "+
			"liveconfig convert", items, mostItems)
	}
	if pairs := pairsOf(spec); pairs > mostPairs {
		return fmt.Sprintf("the pod has too many volumes and mounts: the API server would compare %d pairs of them, and "+
			"compares at most %d: use kubectl liveconfig convert", pairs, mostPairs)
	}
	return ""
}

// osOf returns the first operating system that is not Linux, or Linux.
func osOf(spec *corev1.PodSpec) corev1.OSName {
	if spec.OS != nil && spec.OS.Name != corev1.Linux {
		return spec.OS.Name
	}
	if os, isSet := spec.NodeSelector[corev1.LabelOSStable]; isSet {
		return corev1.OSName(os)
	}
	return corev1.Linux
}

// hasController reports whether controllers of Kubernetes make the pods. They compare no pod with
// its template.
func hasController(w selection.Workload) bool {
	switch w.Object.(type) {
	case *appsv1.Deployment, *appsv1.ReplicaSet, *appsv1.StatefulSet, *appsv1.DaemonSet, *batchv1.Job, *batchv1.CronJob:
		return true
	}
	owner := metav1.GetControllerOfNoCopy(w.Meta)
	if w.Pod == nil || owner == nil {
		return false
	}
	group, _, _ := strings.Cut(owner.APIVersion, "/")
	switch group {
	case appsv1.GroupName:
		return slices.Contains([]string{"ReplicaSet", "StatefulSet", "DaemonSet"}, owner.Kind)
	case batchv1.GroupName:
		return owner.Kind == "Job"
	default:
		return false
	}
}

// pairsOf returns how often the API server compares a mount with another one of its container, or
// with a volume.
func pairsOf(spec *corev1.PodSpec) (count int) {
	for _, c := range mounts.Containers(spec) {
		count += len(c.Mounts) * (len(c.Mounts) + len(spec.Volumes))
	}
	return count
}

// itemsOf returns how many items the volumes of a pod list.
func itemsOf(spec *corev1.PodSpec) int {
	count := 0
	for _, v := range spec.Volumes {
		for _, src := range sourcesOf(v.VolumeSource) {
			count += len(src.items)
		}
	}
	return count
}
