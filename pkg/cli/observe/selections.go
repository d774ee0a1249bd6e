package observe

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/api/content"
	"github.com/liveconfig-csi/liveconfig/pkg/api/statusz"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/versions"
)

// mostSelected is how many objects a volume can select, and one more.
const mostSelected = 1001

// versionOfAll returns what stands for all objects of a selector, as drivers report it.
func (c *Cluster) versionOfAll(ctx context.Context, of api.Ref, selector string) (versions.Now, error) {
	list, err := c.list(ctx, of, selector, mostSelected)
	if err != nil {
		return versions.Now{}, err
	}
	slices.SortFunc(list.Items, func(a, b metav1.PartialObjectMetadata) int {
		return api.CompareAge(refOf(of.Kind, &a), a.CreationTimestamp.Time, refOf(of.Kind, &b), b.CreationTimestamp.Time)
	})
	all := make([]api.Content, len(list.Items))
	var found versions.Now
	for i := range list.Items {
		o := &list.Items[i]
		all[i] = api.Content{Ref: refOf(of.Kind, o), UID: string(o.UID), ResourceVersion: o.ResourceVersion}
		if changed := changedAt(o); changed.After(found.ChangedAt) {
			found.ChangedAt = changed
		}
	}
	found.Version = &statusz.Version{ResourceVersion: api.VersionOfAll(all)}
	return found, nil
}

// lastEditOfAll returns the last edit of an object that a selector finds.
func (c *Cluster) lastEditOfAll(ctx context.Context, of api.Ref, selector string) (last Edit, err error) {
	list, err := c.list(ctx, of, selector, mostSelected)
	if err != nil {
		return Edit{}, err
	}
	for i := range list.Items {
		if edit := lastEdit(&list.Items[i]); edit.At.After(last.At) {
			last = edit
			last.Member = refOf(of.Kind, &list.Items[i])
		}
	}
	return last, nil
}

// Selects reports whether a ref of [api.Ref.Selecting] stands for an object that exists.
func (c *Cluster) Selects(ctx context.Context, of api.Ref) (bool, error) {
	selector, _ := of.Selector()
	list, err := c.list(ctx, of, selector, 1)
	if err != nil {
		return false, err
	}
	return len(list.Items) > 0, nil
}

// list lists the objects that a selector finds, and at most that many.
func (c *Cluster) list(
	ctx context.Context, of api.Ref, selector string, most int64,
) (*metav1.PartialObjectMetadataList, error) {
	objects := c.meta.Resource(corev1.SchemeGroupVersion.WithResource(of.Kind.Resource() + "s")).Namespace(of.Namespace)
	list, err := objects.List(ctx, metav1.ListOptions{LabelSelector: api.RequestSelector(selector), Limit: most})
	switch {
	case apierrors.IsForbidden(err):
		return nil, fmt.Errorf("you may not list %s", of.Named(""))
	case err != nil:
		return nil, fmt.Errorf("list %s: %w", of.Named(""), err)
	}
	return list, nil
}

// List reads the objects of a selection.
func (o *Objects) List(ctx context.Context, selection api.Ref) (map[api.Ref]Object, error) {
	selector, _ := selection.Selector()
	options := metav1.ListOptions{LabelSelector: api.RequestSelector(selector), Limit: mostSelected}
	found := map[api.Ref]Object{}
	add := func(kind api.Kind, object Object) {
		ref := refOf(kind, object)
		o.read[ref], found[ref] = object, object
	}
	if selection.Kind == api.Secret {
		list, err := o.client.CoreV1().Secrets(selection.Namespace).List(ctx, options)
		if err != nil {
			return nil, err
		}
		for i := range list.Items {
			add(selection.Kind, objectOf(&list.Items[i], nil, content.OfSecret))
		}
		return found, nil
	}
	list, err := o.client.CoreV1().ConfigMaps(selection.Namespace).List(ctx, options)
	if err != nil {
		return nil, err
	}
	for i := range list.Items {
		add(selection.Kind, objectOf(&list.Items[i], nil, content.OfConfigMap))
	}
	return found, nil
}
