package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/liveconfig-csi/liveconfig/pkg/cli/selection"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/session"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/versions"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/trigger"
)

// notEnded selects pods that have volumes, or will have.
const notEnded = "status.phase!=Succeeded,status.phase!=Failed"

// mostMistakes is how many mistakes of pods are returned.
const mostMistakes = 20

// Pods reads the pods of a scope in pages, and returns those that have volumes of liveconfig or
// copies, in the order of their namespaces and names. Of each pod only the part stays in memory
// that decides about these. It also returns how many pods it looked at.
func (c *Cluster) Pods(ctx context.Context, scope selection.Scope) (found []*corev1.Pod, looked int, err error) {
	options := metav1.ListOptions{LabelSelector: scope.Labels, FieldSelector: notEnded, Limit: session.PageSize}
	err = resource.FollowContinue(&options, func(options metav1.ListOptions) (runtime.Object, error) {
		page, err := c.Client.CoreV1().Pods(scope.Namespace).List(ctx, options)
		for i := range page.Items {
			looked++
			if pod := &page.Items[i]; pod.DeletionTimestamp == nil && c.concerns(pod) {
				found = append(found, c.excerpt(pod))
			}
		}
		return page, err
	})
	switch {
	case apierrors.IsForbidden(err):
		return nil, 0, notAllowed(scope)
	case apierrors.IsResourceExpired(err):
		return nil, 0, errors.New("list pods: the API server has dropped the list before its last page: run the command again")
	case err != nil:
		return nil, 0, fmt.Errorf("list pods of %s: %w", scope, err)
	}
	return found, looked, nil
}

func notAllowed(scope selection.Scope) error {
	if scope.Namespace != "" {
		return fmt.Errorf("you may not list pods in namespace %s; see kubectl -n %[1]s auth can-i list pods", scope.Namespace)
	}
	return errors.New("you may not list the pods of all namespaces, which takes the verb list on pods in a ClusterRole; " +
		"see kubectl auth can-i list pods --all-namespaces")
}

// concerns reports whether a pod has a volume of liveconfig or a copy.
func (c *Cluster) concerns(pod *corev1.Pod) bool {
	_, hasCopies := pod.Annotations[trigger.ConfigAnnotation]
	return hasCopies || slices.ContainsFunc(pod.Spec.Volumes, c.isOurs)
}

func (c *Cluster) isOurs(v corev1.Volume) bool { return v.CSI != nil && v.CSI.Driver == c.Driver }

// excerpt returns the part of a pod that decides about its volumes of liveconfig and its copies.
// The other volumes are empty: mistakes are named by the numbers of volumes.
func (c *Cluster) excerpt(pod *corev1.Pod) *corev1.Pod {
	part := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, CreationTimestamp: pod.CreationTimestamp,
		},
		Spec:   corev1.PodSpec{NodeName: pod.Spec.NodeName},
		Status: corev1.PodStatus{Phase: pod.Status.Phase},
	}
	if config, hasCopies := pod.Annotations[trigger.ConfigAnnotation]; hasCopies {
		part.Annotations = map[string]string{trigger.ConfigAnnotation: config}
	}
	for _, v := range pod.Spec.Volumes {
		if !c.isOurs(v) {
			v = corev1.Volume{Name: v.Name}
		}
		part.Spec.Volumes = append(part.Spec.Volumes, v)
	}
	return part
}

// FindFleet finds the pods of a scope that show the objects, or any object if objects is empty. The
// pods of a namespace are one workload. It may return an error with what it found all the same.
func (c *Cluster) FindFleet(ctx context.Context, scope selection.Scope, objects []trigger.Object) ([]*WorkloadPods, error) {
	all, looked, err := c.Pods(ctx, scope)
	if err != nil {
		return nil, err
	}
	shows := map[string][]*corev1.Pod{} // By namespace.
	for _, pod := range all {
		places, err := versions.Places(pod.Annotations, &pod.Spec, pod.Namespace, c.Driver)
		if err != nil || len(Among(places, objects)) > 0 {
			shows[pod.Namespace] = append(shows[pod.Namespace], pod)
		}
	}
	if len(shows) == 0 {
		return nil, c.nothing(scope, objects, looked)
	}
	var fleet []*WorkloadPods
	var waiting []*corev1.Pod
	for _, namespace := range slices.Sorted(maps.Keys(shows)) {
		selector := &Selector{Workload: selection.Workload{Meta: &metav1.ObjectMeta{Namespace: namespace}}}
		t := c.newWorkloadPods(selector, shows[namespace], objects)
		t.Name = "pods"
		fleet, waiting = append(fleet, t), append(waiting, t.Waiting...)
	}
	mounts := c.FailedMounts(ctx, scope.Namespace, waiting)
	for _, t := range fleet {
		t.Mounts = mounts
	}
	return fleet, unreadIn(fleet)
}

// nothing is the error that no pod of a scope shows the objects.
func (c *Cluster) nothing(scope selection.Scope, objects []trigger.Object, looked int) error {
	if len(objects) == 0 {
		return fmt.Errorf("no pod in %s has a volume of the driver %s: %d pods looked at; use --driver-name if it has another name",
			scope, c.Driver, looked)
	}
	names := make([]string, len(objects))
	for i, object := range objects {
		names[i] = object.String()
	}
	return fmt.Errorf("no volume of liveconfig in %s shows %s: %d pods looked at", scope, strings.Join(names, " or "), looked)
}

// unreadIn returns the mistakes of the pods of all namespaces.
func unreadIn(fleet []*WorkloadPods) error {
	var errs []error
	for _, t := range fleet {
		for _, text := range slices.Sorted(maps.Keys(t.unread)) {
			errs = append(errs, fmt.Errorf("namespace %s: %s", t.Meta.Namespace, text))
		}
	}
	if more := len(errs) - mostMistakes; more > 0 {
		errs = append(errs[:mostMistakes], fmt.Errorf("and %d more mistakes: see kubectl liveconfig describe -A --problems", more))
	}
	return errors.Join(errs...)
}
