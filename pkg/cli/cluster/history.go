package cluster

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"

	"github.com/liveconfig-csi/liveconfig/pkg/cli/revisions"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/selection"
	rolled "github.com/liveconfig-csi/liveconfig/pkg/rollout/workload"
)

// HistoryOf reads the revisions of a workload.
func HistoryOf(ctx context.Context, client kubernetes.Interface, object runtime.Object, driver string) (revisions.History, error) {
	w, known := selection.ViewOf(object)
	if !known {
		return revisions.History{}, selection.ErrNoRollouts
	}
	pods, _ := selection.AsWorkload(object) // An object with revisions has pods.
	selector, err := metav1.LabelSelectorAsSelector(pods.Selector)
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
