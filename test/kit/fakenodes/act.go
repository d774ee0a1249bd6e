package fakenodes

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func keyOf(pod *corev1.Pod) types.NamespacedName {
	return types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
}

// act does the next thing that is to be done for a pod. What comes of it is seen in the watch, and brings the pod here again.
func (s *Nodes) act(ctx context.Context, key types.NamespacedName) error {
	pod := s.book.get(key)
	switch {
	case pod == nil:
		return nil
	case pod.Spec.NodeName == "" && pod.DeletionTimestamp != nil:
		return nil // It goes when its finalizers do.
	case pod.Spec.NodeName == "":
		return s.bind(ctx, pod)
	case !s.has(pod.Spec.NodeName):
		return nil // Somebody else's.
	case pod.DeletionTimestamp != nil:
		return s.remove(ctx, pod)
	case pod.Status.Phase == corev1.PodSucceeded, pod.Status.Phase == corev1.PodFailed:
		return nil // Somebody has ended it.
	default:
		return s.play(ctx, pod)
	}
}

// bind is what the scheduler does.
func (s *Nodes) bind(ctx context.Context, pod *corev1.Pod) error {
	return s.client.CoreV1().Pods(pod.Namespace).Bind(ctx, &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		Target:     corev1.ObjectReference{Kind: "Node", Name: s.nodeFor(pod)},
	}, metav1.CreateOptions{})
}

// remove is what a kubelet does when the last container of a deleted pod has ended. The pod is seen to change once more on
// its way out.
func (s *Nodes) remove(ctx context.Context, pod *corev1.Pod) error {
	s.mu.Lock()
	done := s.ended[pod.UID]
	s.mu.Unlock()
	if done {
		return nil
	}
	now := int64(0)
	err := s.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: &now, Preconditions: &metav1.Preconditions{UID: &pod.UID},
	})
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended[pod.UID] = true
	return nil
}

// play has the status of a pod say what a kubelet's would. It returns what the pod waits for.
func (s *Nodes) play(ctx context.Context, pod *corev1.Pod) error {
	readErr := s.read(ctx, pod)
	waits, waiting := asWaiting(readErr)
	if readErr != nil && !waiting {
		return readErr
	}
	want := pod.DeepCopy()
	if waiting {
		setWaiting(want, waits)
	} else {
		setStarted(want, s.verdict(pod))
	}
	if equality.Semantic.DeepEqual(want.Status, pod.Status) {
		return readErr
	}
	if _, err := s.client.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, want, metav1.UpdateOptions{}); err != nil {
		return err
	}
	return readErr
}

// read has a pod read its objects, once.
func (s *Nodes) read(ctx context.Context, pod *corev1.Pod) error {
	s.mu.Lock()
	_, done := s.started[pod.UID]
	s.mu.Unlock()
	if done {
		return nil
	}
	sources, err := s.resolve(ctx, pod)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.started[pod.UID] = sources
	s.mu.Unlock()
	return nil
}
