package cluster

import (
	"context"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// KubeletName is the name of the kubelet in Events.
const KubeletName = "kubelet"

// LastSeen returns when an Event was last counted up.
func LastSeen(e *corev1.Event) time.Time {
	if e.Series != nil {
		return e.Series.LastObservedTime.Time
	}
	for _, t := range []time.Time{e.LastTimestamp.Time, e.EventTime.Time, e.FirstTimestamp.Time} {
		if !t.IsZero() {
			return t
		}
	}
	return e.CreationTimestamp.Time
}

// failedMounts returns why the kubelet could not mount volumes of pods, by their UIDs.
func (c *Cluster) failedMounts(ctx context.Context, namespace string, pods []*corev1.Pod) map[string]string {
	reasons := map[string]string{}
	if len(pods) == 0 {
		return reasons
	}
	list, err := c.Client.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{FieldSelector: "reason=FailedMount"})
	if err != nil {
		return reasons // The pods have no reason then.
	}
	slices.SortFunc(list.Items, func(a, b corev1.Event) int { return LastSeen(&a).Compare(LastSeen(&b)) })
	for i := range list.Items {
		reasons[string(list.Items[i].InvolvedObject.UID)] = mountProblem(list.Items[i].Message)
	}
	return reasons
}

// mountProblem is the first line of a driver's error, without the kubelet's words around it.
func mountProblem(message string) string {
	if _, text, found := strings.Cut(message, "desc = "); found {
		message = text
	}
	text, _, _ := strings.Cut(strings.TrimSpace(message), "\n")
	if before, isDenied := strings.CutSuffix(text, "; to allow it, apply:"); isDenied {
		text = before + "; see kubectl liveconfig grant"
	}
	return text
}
