package fakenodes

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// crashes is how often the container of a pod that fails is said to have been started again.
const crashes = 3

// IsReady reports whether a pod counts: it is ready, and is not being deleted.
func IsReady(pod *corev1.Pod) bool {
	if pod.DeletionTimestamp != nil {
		return false
	}
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// setWaiting says that the containers cannot be started.
func setWaiting(pod *corev1.Pod, waits waitingError) {
	pod.Status.Phase = corev1.PodPending
	setConditions(pod, corev1.ConditionFalse)
	setContainers(pod, func(c *corev1.ContainerStatus) {
		c.State.Waiting = &corev1.ContainerStateWaiting{Reason: waits.reason, Message: waits.text}
	})
}

// setStarted says that the containers have been started, and run unless the pod fails.
func setStarted(pod *corev1.Pod, fails error) {
	pod.Status.Phase = corev1.PodRunning
	if pod.Status.StartTime == nil {
		now := metav1.Now()
		pod.Status.StartTime = &now
	}
	if fails != nil {
		setConditions(pod, corev1.ConditionFalse)
		setContainers(pod, func(c *corev1.ContainerStatus) {
			c.RestartCount = crashes
			c.State.Waiting = &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: fails.Error()}
		})
		return
	}
	setConditions(pod, corev1.ConditionTrue)
	started := true
	setContainers(pod, func(c *corev1.ContainerStatus) {
		c.Ready, c.Started = true, &started
		c.State.Running = &corev1.ContainerStateRunning{StartedAt: *pod.Status.StartTime}
	})
}

// setConditions leaves those alone that say so already: how long a pod has been ready counts.
func setConditions(pod *corev1.Pod, ready corev1.ConditionStatus) {
	setCondition(pod, corev1.PodInitialized, corev1.ConditionTrue)
	setCondition(pod, corev1.ContainersReady, ready)
	setCondition(pod, corev1.PodReady, ready)
}

func setCondition(pod *corev1.Pod, kind corev1.PodConditionType, status corev1.ConditionStatus) {
	want := corev1.PodCondition{Type: kind, Status: status, LastTransitionTime: metav1.Now()}
	if status == corev1.ConditionFalse {
		want.Reason = "ContainersNotReady"
	}
	i := slices.IndexFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == kind })
	switch {
	case i < 0:
		pod.Status.Conditions = append(pod.Status.Conditions, want)
	case pod.Status.Conditions[i].Status != status:
		pod.Status.Conditions[i] = want
	}
}

// setContainers makes the statuses of all containers again, with the state that they share. Of init containers nothing is said.
func setContainers(pod *corev1.Pod, set func(*corev1.ContainerStatus)) {
	before := pod.Status.ContainerStatuses
	pod.Status.ContainerStatuses = make([]corev1.ContainerStatus, len(pod.Spec.Containers))
	for i, container := range pod.Spec.Containers {
		status := &pod.Status.ContainerStatuses[i]
		if i < len(before) {
			status.RestartCount = before[i].RestartCount
		}
		status.Name, status.Image = container.Name, container.Image
		set(status)
	}
}
