package release

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/versions"
)

// pod is a pod that runs, or is about to, with the objects that its volumes follow.
type pod struct {
	name, uid, node string
	isReady         bool
	places          []versions.Place
}

// uses reports whether a volume of the pod has an object, by its name or by its labels.
func (p pod) uses(ref api.Ref, labels map[string]string) bool {
	return slices.ContainsFunc(p.places, func(at versions.Place) bool {
		return at.Names == ref || at.Names.Selects(ref, labels)
	})
}

func podsIn(ctx context.Context, client kubernetes.Interface, driver, namespace string) ([]pod, error) {
	list, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list pods: %w", err)
	}
	var pods []pod
	for i := range list.Items {
		p := &list.Items[i]
		if !hasStarted(p) || hasEnded(p) {
			continue
		}
		next := pod{name: p.Name, uid: string(p.UID), node: p.Spec.NodeName, isReady: isReady(p.Status)}
		next.places = placesOf(p, driver)
		pods = append(pods, next)
	}
	return pods, nil
}

// hasStarted reports whether a pod is on a node, as the controller counts pods.
func hasStarted(p *corev1.Pod) bool {
	return p.Spec.NodeName != "" || p.Status.Phase == corev1.PodRunning
}

// hasEnded reports whether no container of a pod will read anything any more.
func hasEnded(p *corev1.Pod) bool {
	if p.DeletionTimestamp != nil || p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
		return true
	}
	statuses := p.Status.ContainerStatuses
	runs := func(s corev1.ContainerStatus) bool { return s.State.Terminated == nil }
	return p.Spec.RestartPolicy == corev1.RestartPolicyNever && len(statuses) > 0 && !slices.ContainsFunc(statuses, runs)
}

// placesOf returns where volumes of a pod follow objects. A volume with mistakes holds nothing, and
// one that never updates has what there was when its pod started.
func placesOf(p *corev1.Pod, driver string) (places []versions.Place) {
	for _, v := range p.Spec.Volumes {
		if v.CSI == nil || v.CSI.Driver != driver {
			continue
		}
		spec, err := api.Parse(v.CSI.VolumeAttributes, p.Namespace)
		if err != nil || spec.UpdatePolicy == api.UpdateNever {
			continue
		}
		for _, ref := range slices.Concat(spec.Refs(), spec.Selected()) {
			places = append(places, versions.Place{Volume: v.Name, Object: ref, Names: ref})
		}
	}
	return places
}

func isReady(status corev1.PodStatus) bool {
	return slices.ContainsFunc(status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

func countReady(pods []pod) (count int) {
	for _, p := range pods {
		if p.isReady {
			count++
		}
	}
	return count
}
