package rollout

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"github.com/liveconfig-csi/liveconfig/pkg/daemon/logkeys"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/workload"
)

// sweepAgain is how soon it is looked again at a revision that still has pods.
const sweepAgain = 2 * time.Second

// sweep removes the revisions of a workload that nobody wants back: those that somebody began by
// applying a manifest, with the sources' own names, and that were pointed to the copies at once.
// They are the same to pods, and in the way of `kubectl rollout undo`, which would go back to one
// of them, and from there forward again.
func (c *Controller) sweep(ctx context.Context, h *cachedWorkload) error {
	if !h.OptedIn || !h.is.Progress.Done || c.cfg.DryRun {
		return nil
	}
	revisions := c.caches.revisionsOf(h)
	for i, r := range revisions {
		plain, wait := c.isPlain(h.is.Ref, r)
		switch {
		case wait > 0:
			c.workloads.AddAfter(h.is.Ref, wait)
		case !plain || r.is.Deleting:
		// Whose turn is over, unless the template is plain. The cache does not have the newer one
		// yet.
		case i == len(revisions)-1:
			if !isPlain(h.Config, h.Uses) {
				c.workloads.AddAfter(h.is.Ref, sweepAgain)
			}
		case h.is.Kind == workload.StatefulSet && !h.is.Progress.Settled: // Its pods may be of any revision.
		case r.is.Live:
			c.workloads.AddAfter(h.is.Ref, sweepAgain)
		default:
			if err := c.remove(ctx, r); err != nil {
				return err
			}
			klog.FromContext(ctx).Info("Deleted a revision that named sources", logkeys.Workload, h.is.String(),
				logkeys.Namespace, h.Namespace, logkeys.Key, r.Name)
		}
	}
	return nil
}

// remove deletes a revision that is still what the cache has.
func (c *Controller) remove(ctx context.Context, r *cachedRevision) error {
	options := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &r.UID, ResourceVersion: &r.ResourceVersion}}
	var err error
	switch apps := c.cfg.Client.AppsV1(); r.is.Kind {
	case workload.ReplicaSet:
		err = apps.ReplicaSets(r.Namespace).Delete(ctx, r.Name, options)
	case workload.ControllerRevision:
		err = apps.ControllerRevisions(r.Namespace).Delete(ctx, r.Name, options)
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete the unneeded revision %s %s: %w", r.is.Kind, r.Name, err)
	}
	return nil
}
