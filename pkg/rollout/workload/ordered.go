package workload

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// UnreadyTime is for how long a pod has to be unready before it counts as blocking. A pod that only
// starts is not deleted by anybody who reads what is reported.
const UnreadyTime = time.Minute

// mostBlocking is how many blocking pods are named at a time.
const mostBlocking = 5

// Ordered is what decides which pods Kubernetes replaces in a StatefulSet with the pod management
// policy OrderedReady and the strategy RollingUpdate. Kubernetes replaces no pod there while one of
// them is not ready, not even that one.
type Ordered struct {
	// Target is the ControllerRevision of the template. It is empty until Kubernetes has seen the
	// template.
	Target string
	// First and Last are the ordinals of the pods that shall be of Target.
	First, Last int
	// IsShort means that pods are not ready, and pods are not of Target.
	IsShort bool
	// Selector fits the pods, and perhaps others.
	Selector *metav1.LabelSelector
}

func orderedOf(s *appsv1.StatefulSet) *Ordered {
	policy, strategy := s.Spec.PodManagementPolicy, s.Spec.UpdateStrategy
	isOrdered := cmp.Or(policy, appsv1.OrderedReadyPodManagement) == appsv1.OrderedReadyPodManagement
	isRolling := cmp.Or(strategy.Type, appsv1.RollingUpdateStatefulSetStrategyType) ==
		appsv1.RollingUpdateStatefulSetStrategyType
	if !isOrdered || !isRolling {
		return nil
	}
	start := 0
	if s.Spec.Ordinals != nil {
		start = int(s.Spec.Ordinals.Start)
	}
	o := &Ordered{
		First: start + int(partition(strategy)), Last: start + int(wanted(s.Spec.Replicas)) - 1,
		Selector: s.Spec.Selector,
	}
	if status, replicas := s.Status, wanted(s.Spec.Replicas); status.ObservedGeneration >= s.Generation {
		o.Target = status.UpdateRevision
		o.IsShort = status.ReadyReplicas < replicas && status.UpdatedReplicas < replicas
	}
	return o
}

// MayBlock reports whether a pod of the workload may block its rollout, by the status alone.
func (w Workload) MayBlock() bool {
	return w.Ordered != nil && w.Ordered.Target != "" && w.Ordered.IsShort
}

// Blocking returns the names of the pods, a few of them at most and in order, that block a rollout
// to a ControllerRevision until somebody deletes them: they have been unready for some time, and
// are of another revision. Kubernetes itself replaces pods that have ended, and pods below the
// partition come back as they are.
func (w Workload) Blocking(target string, pods []*corev1.Pod, now time.Time) []string {
	if w.Ordered == nil || target == "" {
		return nil
	}
	var names []string
	for _, pod := range pods {
		revision := pod.Labels[appsv1.ControllerRevisionHashLabelKey]
		isOther := revision != "" && revision != target
		if isOther && metav1.IsControlledBy(pod, &metav1.ObjectMeta{UID: w.UID}) && w.Ordered.has(pod) &&
			isBroken(pod, now) {
			names = append(names, pod.Name)
		}
	}
	slices.Sort(names)
	return names[:min(len(names), mostBlocking)]
}

// has reports whether a pod shall be of the newest revision, by its ordinal.
func (o *Ordered) has(pod *corev1.Pod) bool {
	ordinal, err := strconv.Atoi(pod.Name[strings.LastIndexByte(pod.Name, '-')+1:])
	return err == nil && ordinal >= o.First && ordinal <= o.Last
}

// isBroken reports whether a pod that has neither ended nor is about to go has been unready for the
// time that counts.
func isBroken(pod *corev1.Pod, now time.Time) bool {
	isOver := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	if isOver || pod.DeletionTimestamp != nil {
		return false
	}
	since := pod.CreationTimestamp.Time
	for _, c := range pod.Status.Conditions {
		if c.Type != corev1.PodReady {
			continue
		}
		if c.Status == corev1.ConditionTrue {
			return false
		}
		if c.LastTransitionTime.After(since) {
			since = c.LastTransitionTime.Time
		}
	}
	return now.Sub(since) >= UnreadyTime
}
