package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/release"
	"github.com/liveconfig-csi/liveconfig/pkg/release/settings"
)

// object names a ConfigMap or Secret.
type object = api.Ref

// unit is what is released together: the objects of a group, or one object without a group.
type unit struct {
	namespace string
	group     string
	alone     object // The zero object for a group.
}

func (u unit) String() string {
	if u.group != "" {
		return "release group " + u.namespace + "/" + u.group
	}
	return u.alone.String()
}

// unitOf returns the unit of an object by the value of its annotation. One that cannot be read has
// no group.
func unitOf(o object, annotation string) unit {
	if group := settings.GroupOf(annotation); group != "" {
		return unit{namespace: o.Namespace, group: group}
	}
	return unit{namespace: o.Namespace, alone: o}
}

// objects hold the metadata of ConfigMaps and Secrets, as far as it has to do with releases.
type objects struct {
	informers map[api.Kind][]cache.SharedIndexInformer
}

// The indexes.
const (
	byUnit      = "unit" // Released objects, by unit.
	byNamespace = "in"   // Released objects, by namespace.
)

func newObjects(cfg Config) (*objects, error) {
	namespaces := cfg.Namespaces
	if len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceAll}
	}
	kinds := []api.Kind{api.ConfigMap}
	if cfg.Secrets {
		kinds = append(kinds, api.Secret)
	}
	c := &objects{informers: map[api.Kind][]cache.SharedIndexInformer{}}
	for _, namespace := range namespaces {
		all := metadatainformer.NewFilteredSharedInformerFactory(cfg.Metadata, 0, namespace, nil)
		for _, kind := range kinds {
			informer := all.ForResource(corev1.SchemeGroupVersion.WithResource(kind.Resource() + "s")).Informer()
			c.informers[kind] = append(c.informers[kind], informer)
			err := errors.Join(informer.SetTransform(bare), informer.AddIndexers(cache.Indexers{
				byUnit: func(o any) ([]string, error) { return indexOf(kind, o, unit.String), nil },
				byNamespace: func(o any) ([]string, error) {
					return indexOf(kind, o, func(u unit) string { return u.namespace }), nil
				},
			}))
			if err != nil {
				return nil, fmt.Errorf("set up the caches of objects: %w", err)
			}
		}
	}
	return c, nil
}

// bare keeps of an object what has to do with releases. The annotation is read here, once for each
// event, and only its group is cached.
func bare(o any) (any, error) {
	m, ok := o.(*metav1.PartialObjectMetadata)
	if !ok {
		return o, nil
	}
	kept := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: m.Namespace, Name: m.Name}}
	value, isReleased := m.Annotations[release.Annotation]
	if label := m.Labels[release.StableLabel]; label != "" {
		kept.Labels = map[string]string{release.StableLabel: label}
	}
	if isReleased {
		kept.Annotations = map[string]string{release.Annotation: settings.Brief(value)}
	}
	if isReleased || kept.Labels != nil {
		kept.UID, kept.ResourceVersion = m.UID, m.ResourceVersion
	}
	return kept, nil
}

func indexOf(kind api.Kind, o any, key func(unit) string) []string {
	m, ok := o.(*metav1.PartialObjectMetadata)
	if !ok {
		return nil
	}
	value, isReleased := m.Annotations[release.Annotation]
	if !isReleased {
		return nil
	}
	return []string{key(unitOf(refOf(kind, m), value))}
}

func refOf(kind api.Kind, m *metav1.PartialObjectMetadata) object {
	return object{Kind: kind, Namespace: m.Namespace, Name: m.Name}
}

// annotationOf returns the release annotation of an object, which may be nil.
func annotationOf(m *metav1.PartialObjectMetadata) (value string, isReleased bool) {
	if m == nil {
		return "", false
	}
	value, isReleased = m.Annotations[release.Annotation]
	return value, isReleased
}

// released returns the released objects under a key of an index, ConfigMaps first, by name.
func (c *objects) released(index, key string) []object {
	var all []object
	for kind, informers := range c.informers {
		for _, informer := range informers {
			found, err := informer.GetIndexer().ByIndex(index, key)
			if err != nil {
				continue // There is no other error than an unknown index.
			}
			for _, o := range found {
				if m, ok := o.(*metav1.PartialObjectMetadata); ok {
					all = append(all, refOf(kind, m))
				}
			}
		}
	}
	slices.SortFunc(all, func(a, b object) int { return strings.Compare(release.NameOf(a), release.NameOf(b)) })
	return all
}

// get returns the metadata of an object; nil for one that is not there.
func (c *objects) get(o object) *metav1.PartialObjectMetadata {
	for _, informer := range c.informers[o.Kind] {
		found, exists, err := informer.GetStore().GetByKey(o.Namespace + "/" + o.Name)
		if m, ok := found.(*metav1.PartialObjectMetadata); ok && exists && err == nil {
			return m
		}
	}
	return nil
}

func (c *objects) haveSynced() bool {
	for _, informers := range c.informers {
		if slices.ContainsFunc(informers, func(i cache.SharedIndexInformer) bool { return !i.HasSynced() }) {
			return false
		}
	}
	return true
}

// run fills the caches and keeps them current until ctx ends.
func (c *objects) run(ctx context.Context) {
	var wg sync.WaitGroup
	for _, informers := range c.informers {
		for _, informer := range informers {
			wg.Go(func() { informer.RunWithContext(ctx) })
		}
	}
	wg.Wait()
}

// listen queues the units of objects that change.
func (c *Controller) listen() error {
	var errs []error
	for kind, informers := range c.objects.informers {
		add := func(o any) {
			if gone, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = gone.Obj
			}
			if m, ok := o.(*metav1.PartialObjectMetadata); ok {
				c.changed(refOf(kind, m), m)
			}
		}
		for _, informer := range informers {
			_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
				AddFunc: add, DeleteFunc: add, UpdateFunc: func(old, now any) { add(old); add(now) },
			})
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// changed queues what an object belongs to: its own unit, or that of the object whose copy it is.
func (c *Controller) changed(o object, m *metav1.PartialObjectMetadata) {
	if value, isReleased := m.Annotations[release.Annotation]; isReleased {
		c.queue.Add(unitOf(o, value))
		c.queue.Add(unit{namespace: o.Namespace, alone: o}) // It may have left a group, or joined one.
	}
	name, isCopy := strings.CutSuffix(o.Name, release.Suffix)
	if !isCopy {
		return
	}
	source := object{Kind: o.Kind, Namespace: o.Namespace, Name: name}
	found := c.objects.get(source)
	if found == nil && m.Labels[release.StableLabel] == "" {
		return // Somebody's object that is called like that.
	}
	c.queue.Add(unit{namespace: o.Namespace, alone: source})
	if found != nil {
		c.queue.Add(unitOf(source, found.Annotations[release.Annotation]))
	}
}
