package observe

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/kubernetes"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/revisions"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/selection"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/session"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/reloader"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/state"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/trigger"
	rolled "github.com/liveconfig-csi/liveconfig/pkg/rollout/workload"
)

// RolloutState returns the state of the rollout of a workload. Objects without rollouts are not
// triggered.
func (c *Cluster) RolloutState(ctx context.Context, object runtime.Object) state.State {
	w, hasRollouts := selection.ViewOf(object)
	if !hasRollouts {
		return state.State{Name: state.NotTriggered}
	}
	facts := state.Facts{Workload: w, Newest: map[api.Ref]string{}}
	if w.MayBlock() {
		facts.Blocking = BlockingPods(ctx, c.Client, w, w.Ordered.Target)
	}
	value, _, _ := reloader.Wanted(w.Annotations, w.Template)
	objects, _ := trigger.Parse(value) // The state has its mistake.
	for _, object := range objects {
		if is := Get(ctx, c.Client, object.In(w.Namespace)); is.Err == nil {
			facts.Newest[object] = is.CopyName
		}
	}
	s := state.Of(facts)
	if s.Name == state.Pending {
		facts.Held = c.heldBack(ctx, w)
		return state.Of(facts)
	}
	return s
}

// heldBack returns why the controller holds an edit back, by its last Event about the workload.
func (c *Cluster) heldBack(ctx context.Context, w rolled.Workload) string {
	list, err := c.Client.CoreV1().Events(w.Namespace).List(ctx, metav1.ListOptions{
		FieldSelector: fields.Set{"involvedObject.uid": string(w.UID), "source": api.ControllerName}.String(),
	})
	if err != nil {
		return "" // Then it is not known why.
	}
	events := slices.DeleteFunc(list.Items, func(e corev1.Event) bool { return e.Reason == state.ReasonBlocked })
	if len(events) == 0 {
		return ""
	}
	newest := slices.MaxFunc(events, func(a, b corev1.Event) int { return LastSeen(&a).Compare(LastSeen(&b)) })
	if newest.Reason != state.ReasonHeldBack {
		return ""
	}
	return strings.TrimPrefix(newest.Message, state.HeldBackPrefix)
}

// BlockingPods returns the pods that block a rollout of a workload to a ControllerRevision until
// somebody deletes them. It returns nothing if the pods cannot be listed.
func BlockingPods(ctx context.Context, client kubernetes.Interface, w rolled.Workload, target string) []string {
	if w.Ordered == nil {
		return nil
	}
	selector, err := metav1.LabelSelectorAsSelector(w.Ordered.Selector)
	if err != nil {
		return nil
	}
	list, err := client.CoreV1().Pods(w.Namespace).List(ctx, metav1.ListOptions{LabelSelector: selector.String()})
	if err != nil {
		return nil
	}
	pods := make([]*corev1.Pod, len(list.Items))
	for i := range list.Items {
		pods[i] = &list.Items[i]
	}
	return w.Blocking(target, pods, time.Now())
}

// HistoryOf reads the revisions of a workload.
func HistoryOf(
	ctx context.Context, client kubernetes.Interface, object runtime.Object, driver string,
) (revisions.History, error) {
	w, known := selection.ViewOf(object)
	if !known {
		return revisions.History{}, selection.ErrNoRollouts
	}
	made, _ := selection.AsWorkload(object) // An object with revisions has pods.
	selector, err := metav1.LabelSelectorAsSelector(made.Selector)
	if err != nil {
		return revisions.History{}, fmt.Errorf("read its selector: %w", err)
	}
	options := metav1.ListOptions{LabelSelector: selector.String()}
	if w.Kind == rolled.Deployment {
		list, err := client.AppsV1().ReplicaSets(w.Namespace).List(ctx, options)
		if err != nil {
			return revisions.History{}, fmt.Errorf("list its ReplicaSets: %w", err)
		}
		return revisions.OfDeployment(w, list.Items, driver), nil
	}
	list, err := client.AppsV1().ControllerRevisions(w.Namespace).List(ctx, options)
	if err != nil {
		return revisions.History{}, fmt.Errorf("list its ControllerRevisions: %w", err)
	}
	return revisions.OfOther(w, list.Items, driver), nil
}

// KubeletName is the name of the kubelet in Events.
const KubeletName = "kubelet"

// LastSeen returns when an Event was last counted up.
func LastSeen(e *corev1.Event) time.Time {
	if e.Series != nil {
		return e.Series.LastObservedTime.Time
	}
	return cmp.Or(e.LastTimestamp.Time, e.EventTime.Time, e.FirstTimestamp.Time, e.CreationTimestamp.Time)
}

// Mounts are the reasons why the kubelet could not mount volumes, by the UIDs of the pods and the
// names of the volumes.
type Mounts map[string]map[string]string

// FailedMounts returns why the kubelet could not mount volumes of pods. The namespace is empty for
// all namespaces.
func (c *Cluster) FailedMounts(ctx context.Context, namespace string, pods []*Pod) Mounts {
	reasons := Mounts{}
	if len(pods) == 0 {
		return reasons
	}
	for _, pod := range pods {
		reasons[string(pod.UID)] = map[string]string{}
	}
	seen := map[[2]string]time.Time{} // When, by pod and volume.
	options := metav1.ListOptions{FieldSelector: "reason=FailedMount", Limit: session.PageSize}
	_ = resource.FollowContinue(&options, func(options metav1.ListOptions) (runtime.Object, error) {
		list, err := c.Client.CoreV1().Events(namespace).List(ctx, options)
		for i := range list.Items {
			e := &list.Items[i]
			uid := string(e.InvolvedObject.UID)
			volume, isOfOne := volumeOf(e.Message)
			at := [2]string{uid, volume}
			if isOfOne && reasons[uid] != nil && !LastSeen(e).Before(seen[at]) {
				seen[at], reasons[uid][volume] = LastSeen(e), mountProblem(e.Message)
			}
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
