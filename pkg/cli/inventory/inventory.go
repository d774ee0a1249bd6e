// Package inventory lists the workloads and pods of namespaces in pages, and finds out which
// workload a pod is of.
//
// It does not know what is looked for in them.
package inventory

import (
	"context"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/kubernetes"

	"github.com/liveconfig-csi/liveconfig/pkg/cli/selection"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/session"
)

// Item is a workload, or a pod.
type Item struct {
	selection.Workload

	// Kind is the name that kubectl has for the kind, such as deployment.
	Kind string
	// Owner is the UID of the workload that the object is of, or empty if the object stands for
	// itself. A ReplicaSet that a controller of another kind owns stands for itself.
	Owner types.UID
}

// Each calls do for the workloads of a scope that make pods and for pods that have not ended.
// Workloads come before what they own.
func Each(ctx context.Context, client kubernetes.Interface, scope selection.Scope, do func(Item) error) error {
	o := owners{roots: map[types.UID]bool{}, owned: map[types.UID]types.UID{}}
	for _, list := range lists(client, scope.Namespace) {
		err := Pages(ctx, list.plural, scope, list.fetch, func(object runtime.Object) error {
			w, ok := selection.AsWorkload(object)
			if !ok {
				return nil
			}
			owner := o.of(w.Meta)
			if owner == "" && makesNoPods(w) {
				return nil
			}
			return do(Item{Workload: w, Kind: list.kind, Owner: owner})
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// owners has the UIDs of workloads that stand for themselves, and the owners of others.
type owners struct {
	roots map[types.UID]bool
	owned map[types.UID]types.UID
}

func (o *owners) of(object *metav1.ObjectMeta) types.UID {
	if controller := metav1.GetControllerOfNoCopy(object); controller != nil {
		uid := controller.UID
		if above, found := o.owned[uid]; found {
			uid = above
		}
		if o.roots[uid] {
			o.owned[object.UID] = uid
			return uid
		}
	}
	o.roots[object.UID] = true
	return ""
}

// Fetch reads one page of a list.
type Fetch func(context.Context, metav1.ListOptions) (runtime.Object, error)

// lists are the lists of workloads, by the names that kubectl has for their kinds. Owners come
// before what they own.
func lists(c kubernetes.Interface, namespace string) []struct {
	kind, plural string
	fetch        Fetch
} {
	return []struct {
		kind, plural string
		fetch        Fetch
	}{
		{"deployment", "deployments", func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return c.AppsV1().Deployments(namespace).List(ctx, o)
		}},
		{"statefulset", "statefulsets", func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return c.AppsV1().StatefulSets(namespace).List(ctx, o)
		}},
		{"daemonset", "daemonsets", func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return c.AppsV1().DaemonSets(namespace).List(ctx, o)
		}},
		{"cronjob", "cronjobs", func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return c.BatchV1().CronJobs(namespace).List(ctx, o)
		}},
		{"replicaset", "replicasets", func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return c.AppsV1().ReplicaSets(namespace).List(ctx, o)
		}},
		{"job", "jobs", func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return c.BatchV1().Jobs(namespace).List(ctx, o)
		}},
		{"pod", "pods", func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.FieldSelector = "status.phase!=Succeeded,status.phase!=Failed"
			return c.CoreV1().Pods(namespace).List(ctx, o)
		}},
	}
}

// Pages reads a list in pages, and calls each for every object.
func Pages(ctx context.Context, what string, scope selection.Scope, read Fetch, each func(runtime.Object) error) error {
	options := metav1.ListOptions{Limit: session.PageSize}
	err := resource.FollowContinue(&options, func(o metav1.ListOptions) (runtime.Object, error) {
		page, err := read(ctx, o)
		if err != nil {
			return nil, err
		}
		return page, meta.EachListItem(page, each)
	})
	switch {
	case apierrors.IsForbidden(err) && scope.Namespace == "":
		return fmt.Errorf("you may not list the %s of all namespaces; see kubectl auth can-i list %[1]s --all-namespaces, "+
			"or name a namespace with -n", what)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("you may not list %s in %s; see kubectl -n %s auth can-i list %[1]s", what, scope, scope.Namespace)
	case apierrors.IsResourceExpired(err):
		return fmt.Errorf("list %s: the API server has dropped the list before its last page: run the command again", what)
	case err != nil:
		return fmt.Errorf("list %s of %s: %w", what, scope, err)
	}
	return nil
}

// makesNoPods reports whether a workload makes no more pods: a Job that has ended, and a ReplicaSet
// without replicas that a controller owns.
func makesNoPods(w selection.Workload) bool {
	if job, ok := w.Object.(*batchv1.Job); ok {
		for _, c := range job.Status.Conditions {
			if (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue {
				return true
			}
		}
		return false
	}
	return w.Replicas != nil && *w.Replicas == 0 && metav1.GetControllerOfNoCopy(w.Meta) != nil
}
