package rollout

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/copies"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/workload"
)

// newcomerAge is how long a copy that nothing uses yet is left alone: the template that it was made
// for may be on its way.
const newcomerAge = time.Minute

// reconcileCopy sees that a copy that is needed is there, and that it belongs to the revisions that
// use it: the garbage collector removes it after the last of them. Until a workload has a revision
// that uses a copy, the workload itself owns it.
func (c *Controller) reconcileCopy(ctx context.Context, o api.Ref) error {
	needed := c.ownersOf(o)
	found, exists := c.caches.copied(o)
	if exists || len(needed) == 0 {
		c.reportedGone.Forget(o)
		c.requests.Forget(o)
	}
	switch {
	case !exists && len(needed) > 0:
		return c.restoreOrRecreate(ctx, o, needed)
	case !exists || found.DeletionTimestamp != nil:
		return nil
	case len(needed) == 0:
		return c.discard(ctx, o, found)
	}
	if origins := c.originsOf(o); !copies.IsMarked(found.Annotations) && len(origins) > 0 && !c.cfg.DryRun {
		return c.restore(ctx, o, origins)
	}
	patch := map[string]any{}
	if owners := c.mergeOwners(found.OwnerReferences, needed); !slices.EqualFunc(owners, found.OwnerReferences, isSame) {
		patch["ownerReferences"] = owners
	}
	if carried := c.carriedTo(o, found); !carried.IsEqual(found.Carried) {
		patch["labels"], patch["annotations"] = carried.Patch(found.Carried)
	}
	if len(patch) == 0 || c.cfg.DryRun {
		return nil
	}
	return c.patchCopy(ctx, o, &found.ObjectMeta, patch)
}

// carriedTo returns the labels and annotations that a copy should have from its source: those that
// the source has now, whichever content the copy has. A copy whose source is gone, or lists what
// cannot be copied, stays as it is.
func (c *Controller) carriedTo(o api.Ref, found *cachedCopy) copies.Carried {
	of, err := copies.SourceOf(found.Annotations)
	if err != nil || of.Kind != o.Kind {
		return found.Carried
	}
	source, exists := c.caches.source(of.In(o.Namespace))
	if !exists || source.Problem != "" {
		return found.Carried
	}
	return source.Carried
}

// ownersOf returns the objects that need a copy: revisions that use it, and workloads of which no
// revision uses it yet.
func (c *Controller) ownersOf(o api.Ref) []metav1.OwnerReference {
	var owners []metav1.OwnerReference
	served := map[types.UID]bool{}
	for _, r := range c.caches.revisionsUsing(o) {
		if !r.is.Deleting {
			owners = append(owners, r.is.OwnerReference())
			served[r.is.Owner] = true
		}
	}
	for _, h := range c.caches.workloadsUsing(o) {
		if !h.is.Deleting && !served[h.is.UID] {
			owners = append(owners, h.is.OwnerReference())
		}
	}
	slices.SortFunc(owners, func(a, b metav1.OwnerReference) int { return cmp.Compare(a.UID, b.UID) })
	return owners
}

// mergeOwners returns the owners that a copy should have: those it has, except workloads that no
// longer need it, and those that need it. An owner that others have added stays one.
func (c *Controller) mergeOwners(have, needed []metav1.OwnerReference) []metav1.OwnerReference {
	var merged []metav1.OwnerReference
	for _, owner := range have {
		isIt := func(n metav1.OwnerReference) bool { return n.UID == owner.UID }
		if !isWorkload(owner) || slices.ContainsFunc(needed, isIt) {
			merged = append(merged, owner)
		}
	}
	for _, owner := range needed {
		if !slices.ContainsFunc(merged, func(m metav1.OwnerReference) bool { return m.UID == owner.UID }) {
			merged = append(merged, owner)
		}
	}
	return merged
}

func isWorkload(owner metav1.OwnerReference) bool {
	kinds := []workload.Kind{workload.Deployment, workload.StatefulSet, workload.DaemonSet}
	return owner.APIVersion == appsv1.SchemeGroupVersion.String() && slices.Contains(kinds, workload.Kind(owner.Kind))
}

func isSame(a, b metav1.OwnerReference) bool { return a.UID == b.UID }

// patchCopy writes metadata of a copy over the version that was read.
func (c *Controller) patchCopy(ctx context.Context, o api.Ref, found *metav1.ObjectMeta, patch map[string]any) error {
	patch["uid"], patch["resourceVersion"] = found.UID, found.ResourceVersion
	body, err := json.Marshal(map[string]any{"metadata": patch})
	if err != nil {
		return fmt.Errorf("encode the metadata of %s: %w", o, err)
	}
	resource := resource(o.Kind.Resource() + "s")
	_, err = c.cfg.Metadata.Resource(resource).Namespace(o.Namespace).
		Patch(ctx, o.Name, types.MergePatchType, body, metav1.PatchOptions{FieldManager: FieldManager})
	if apierrors.IsNotFound(err) {
		return nil // Its deletion queues it again.
	}
	if err != nil {
		return fmt.Errorf("write the metadata of %s: %w", o, err)
	}
	return nil
}

// discard deletes a copy that nothing uses and only workloads own, which was made for a template
// that never came. The garbage collector removes copies that revisions own. A copy without owners
// may be used by pods that were left behind.
func (c *Controller) discard(ctx context.Context, o api.Ref, found *cachedCopy) error {
	owners := c.mergeOwners(found.OwnerReferences, nil)
	if len(owners) > 0 || len(found.OwnerReferences) == 0 || c.cfg.DryRun {
		return nil
	}
	if age := time.Since(found.CreationTimestamp.Time); age < newcomerAge {
		c.copies.AddAfter(o, newcomerAge-age)
		return nil
	}
	err := c.cfg.Metadata.Resource(resource(o.Kind.Resource()+"s")).Namespace(o.Namespace).Delete(ctx, o.Name,
		metav1.DeleteOptions{
			Preconditions: &metav1.Preconditions{UID: &found.UID, ResourceVersion: &found.ResourceVersion},
		})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete %s, which nothing uses: %w", o, err)
	}
	return nil
}

// restoreOrRecreate makes a copy again that somebody has deleted, if its source still has that
// content. Otherwise it reports to those that need it. A copy that has lost its label gets it back.
func (c *Controller) restoreOrRecreate(ctx context.Context, o api.Ref, owners []metav1.OwnerReference) error {
	if c.cfg.DryRun || (o.Kind == api.Secret && !c.cfg.Secrets) {
		return nil // There may be one; nobody may look.
	}
	origins := c.originsOf(o)
	if len(origins) == 0 {
		c.requests.Forget(o)
		return nil // It only looks like a copy.
	}
	if wait := c.requests.Wait(o.Namespace, o, 1); wait > 0 {
		c.cfg.Metrics.putOff.Inc()
		c.copies.AddAfter(o, wait)
		return nil
	}
	c.requests.Forget(o)
	found, err := c.cfg.Metadata.Resource(resource(o.Kind.Resource()+"s")).Namespace(o.Namespace).Get(ctx, o.Name,
		metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return c.recreate(ctx, o, origins, owners)
	case err != nil:
		return fmt.Errorf("look for %s: %w", o, err)
	case copies.Is(found.Labels), found.DeletionTimestamp != nil:
		return nil // The cache will have that, and queue it.
	default:
		return c.restore(ctx, o, origins)
	}
}

// recreate makes a copy that does not exist any more, if one of its sources has that content.
func (c *Controller) recreate(ctx context.Context, o api.Ref, origins []api.Ref, owners []metav1.OwnerReference) error {
	at := slices.IndexFunc(origins, func(of api.Ref) bool {
		s, exists := c.caches.source(of.In(o.Namespace))
		return exists && s.CopyName == o.Name
	})
	if at < 0 {
		c.reportGone(o)
		return nil
	}
	err := c.makeCopy(ctx, origins[at].In(o.Namespace), o.Name, owners...)
	var held *heldError
	switch {
	case errors.As(err, &held), errors.Is(err, errChanged), apierrors.IsNotFound(err):
		c.reportGone(o)
		return nil
	case err != nil:
		return fmt.Errorf("make %s again: %w", o, err)
	}
	c.cfg.Metrics.remade.Inc()
	return nil
}

// restore gives an object that is the copy its label and annotations back: by the label the caches
// and others know it.
func (c *Controller) restore(ctx context.Context, o api.Ref, origins []api.Ref) error {
	var err error
	if core := c.cfg.Client.CoreV1(); o.Kind == api.Secret {
		err = restoreBy(ctx, c, core.Secrets(o.Namespace), o, origins)
	} else {
		err = restoreBy(ctx, c, core.ConfigMaps(o.Namespace), o, origins)
	}
	if errors.Is(err, copies.ErrNotThatCopy) {
		c.reportNameTaken(o, err)
		return nil
	}
	return err
}

func restoreBy[O copies.Object](ctx context.Context, c *Controller, in client[O], o api.Ref, origins []api.Ref) error {
	there, err := in.Get(ctx, o.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil // Its deletion queues it again.
	}
	if err != nil {
		return fmt.Errorf("look at %s: %w", o, err)
	}
	for _, origin := range origins {
		var labels, annotations map[string]any
		labels, annotations, err = copies.Restore(there, origin)
		if err == nil {
			return c.patchCopy(ctx, o, metaOf(there), map[string]any{"labels": labels, "annotations": annotations})
		}
	}
	return err
}

// originsOf returns the sources of which an object is a copy by the configs of those that use it. A
// template can name anything, so most objects have no origin.
func (c *Controller) originsOf(o api.Ref) []api.Ref {
	var origins []api.Ref
	add := func(config map[api.Ref]string) {
		for from, name := range config {
			if from.Kind == o.Kind && name == o.Name && !slices.Contains(origins, from) {
				origins = append(origins, from)
			}
		}
	}
	for _, h := range c.caches.workloadsUsing(o) {
		add(h.Config)
	}
	for _, r := range c.caches.revisionsUsing(o) {
		add(r.Copies)
	}
	return origins
}
