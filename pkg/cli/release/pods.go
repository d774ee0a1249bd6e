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

// pod is a pod with the objects that its volumes show.
type pod struct {
	name, uid, node string
	isReady         bool
	places          []versions.Place
}

func (p pod) uses(ref api.Ref) bool {
	return slices.ContainsFunc(p.places, func(at versions.Place) bool { return at.Names == ref })
}

func podsIn(ctx context.Context, client kubernetes.Interface, driver, namespace string) ([]pod, error) {
	list, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list pods: %w", err)
	}
	var pods []pod
	for i := range list.Items {
		p := &list.Items[i]
		if p.DeletionTimestamp != nil || p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
			continue
		}
		next := pod{name: p.Name, uid: string(p.UID), node: p.Spec.NodeName, isReady: isReady(p.Status)}
		next.places, _ = versions.Places(nil, &p.Spec, p.Namespace, driver) // A volume with mistakes holds nothing.
		pods = append(pods, next)
	}
	return pods, nil
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
