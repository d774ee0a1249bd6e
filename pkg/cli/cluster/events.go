package cluster

import (
	"context"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/liveconfig-csi/liveconfig/pkg/cli/session"
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

// Mounts are the reasons why the kubelet could not mount volumes, by the UIDs of the pods and the
// names of the volumes.
type Mounts map[string]map[string]string

// FailedMounts returns why the kubelet could not mount volumes of pods. The namespace is empty for
// all namespaces.
func (c *Cluster) FailedMounts(ctx context.Context, namespace string, pods []*corev1.Pod) Mounts {
	reasons, seen := Mounts{}, map[types.UID]map[string]time.Time{}
	if len(pods) == 0 {
		return reasons
	}
	for _, pod := range pods {
		seen[pod.UID] = map[string]time.Time{}
	}
	options := metav1.ListOptions{FieldSelector: "reason=FailedMount", Limit: session.PageSize}
	_ = resource.FollowContinue(&options, func(options metav1.ListOptions) (runtime.Object, error) {
		list, err := c.Client.CoreV1().Events(namespace).List(ctx, options)
		for i := range list.Items {
			e := &list.Items[i]
			uid := e.InvolvedObject.UID
			last, isAbout := seen[uid]
			volume, isOfOne := volumeOf(e.Message)
			if !isAbout || !isOfOne || LastSeen(e).Before(last[volume]) {
				continue
			}
			if reasons[string(uid)] == nil {
				reasons[string(uid)] = map[string]string{}
			}
			last[volume], reasons[string(uid)][volume] = LastSeen(e), mountProblem(e.Message)
		}
		return list, err
	}) // After an error, the reasons of the pages before it count.
	return reasons
}

// volumeOf returns the volume that a message of the kubelet is about, if it is about one.
func volumeOf(message string) (name string, found bool) {
	_, rest, found := strings.Cut(message, ` for volume "`)
	if !found || !strings.HasPrefix(message, "MountVolume.") {
		return "", false
	}
	name, _, found = strings.Cut(rest, `"`)
	return name, found
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
