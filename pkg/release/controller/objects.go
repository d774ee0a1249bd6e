package controller

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/daemon/workloop"
	"github.com/liveconfig-csi/liveconfig/pkg/release"
	"github.com/liveconfig-csi/liveconfig/pkg/release/settings"
)

// unit is what is released together: the objects of a group, or one object without a group.
type unit struct {
	namespace string
	group     string
	alone     api.Ref // The zero object for a group.
}

func (u unit) String() string {
	if u.group != "" {
		return "release group " + u.namespace + "/" + u.group
	}
	return u.alone.String()
}

// unitOf returns the unit of an object by the value of its annotation. One that cannot be read has
// no group.
func unitOf(o api.Ref, annotation string) unit {
	if group := settings.GroupOf(annotation); group != "" {
		return unit{namespace: o.Namespace, group: group}
	}
	return unit{namespace: o.Namespace, alone: o}
}

// objects are the metadata of ConfigMaps and Secrets, in caches that other parts of the program
// share.
type objects struct {
	informers map[api.Kind][]cache.SharedIndexInformer
}

// The indexes.
const (
	byUnit      = "unit" // Released objects, by unit.
	byNamespace = "in"   // Released objects, by namespace.
)

// newObjects adds the indexes to caches that do not run yet.
func newObjects(informers map[api.Kind][]cache.SharedIndexInformer) (*objects, error) {
	for kind, ofKind := range informers {
		for _, informer := range ofKind {
			err := informer.AddIndexers(cache.Indexers{
				byUnit: func(o any) ([]string, error) { return indexOf(kind, o, unit.String), nil },
				byNamespace: func(o any) ([]string, error) {
					return indexOf(kind, o, func(u unit) string { return u.namespace }), nil
				},
			})
			if err != nil {
				return nil, fmt.Errorf("set up the caches of objects: %w", err)
			}
		}
	}
	return &objects{informers}, nil
}

func indexOf(kind api.Kind, o any, key func(unit) string) []string {
	m, ok := o.(metav1.Object)
	if !ok {
		return nil
	}
	value, isReleased := annotationOf(m)
	if !isReleased {
		return nil
	}
	return []string{key(unitOf(refOf(kind, m), value))}
}

func refOf(kind api.Kind, m metav1.Object) api.Ref {
	return api.Ref{Kind: kind, Namespace: m.GetNamespace(), Name: m.GetName()}
}

// annotationOf returns the release annotation of an object, which may be nil.
func annotationOf(m metav1.Object) (value string, isReleased bool) {
	if m == nil {
		return "", false
	}
	value, isReleased = m.GetAnnotations()[release.Annotation]
	return value, isReleased
}

// released returns the released objects under a key of an index, ConfigMaps first, by name.
func (c *objects) released(index, key string) []api.Ref {
	var all []api.Ref
	for kind, informers := range c.informers {
		for _, informer := range informers {
			found, err := informer.GetIndexer().ByIndex(index, key)
			if err != nil {
				continue // There is no other error than an unknown index.
			}
			for _, o := range found {
				if m, ok := o.(metav1.Object); ok {
					all = append(all, refOf(kind, m))
				}
			}
		}
	}
	slices.SortFunc(all, func(a, b api.Ref) int { return strings.Compare(release.NameOf(a), release.NameOf(b)) })
	return all
}

// get returns the metadata of an object; nil for one that is not there.
func (c *objects) get(o api.Ref) metav1.Object {
	for _, informer := range c.informers[o.Kind] {
		found, exists, err := informer.GetStore().GetByKey(o.Namespace + "/" + o.Name)
		if m, ok := found.(metav1.Object); ok && exists && err == nil {
			return m
		}
	}
	return nil
}

// hasLabel reports whether an object is there whose label names another one.
func (c *objects) hasLabel(o api.Ref, label string, of api.Ref) bool {
	found := c.get(o)
	return found != nil && found.GetLabels()[label] == release.LabelOf(of.Name)
}

func (c *objects) haveSynced() bool {
	for _, informers := range c.informers {
		if slices.ContainsFunc(informers, func(i cache.SharedIndexInformer) bool { return !i.HasSynced() }) {
			return false
		}
	}
	return true
}

// listen queues the units of objects that change.
func (c *Controller) listen() error {
	var errs []error
	for kind, informers := range c.objects.informers {
		changed := func(old, now any) {
			for _, o := range []any{old, now} {
				if m, ok := o.(metav1.Object); ok {
					c.changed(refOf(kind, m), m)
				}
			}
		}
		for _, informer := range informers {
			_, err := informer.AddEventHandler(workloop.OnChange(changed))
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// changed queues what an object belongs to: its own unit, or that of the object whose copy it is,
// or whose former contents it keeps.
func (c *Controller) changed(o api.Ref, m metav1.Object) {
	if value, isReleased := annotationOf(m); isReleased {
		c.queue.Add(unitOf(o, value))
		c.queue.Add(unit{namespace: o.Namespace, alone: o}) // It may have left a group, or joined one.
	}
	name, isCopy := strings.CutSuffix(o.Name, release.Suffix)
	name, isFormer := strings.CutSuffix(name, release.FormerSuffix)
	if !isCopy && !isFormer {
		return
	}
	source := api.Ref{Kind: o.Kind, Namespace: o.Namespace, Name: name}
	found := c.objects.get(source)
	if found == nil && m.GetLabels()[release.StableLabel] == "" && m.GetLabels()[release.FormerLabel] == "" {
		return // Somebody's object that is called like that.
	}
	c.queue.Add(unit{namespace: o.Namespace, alone: source})
	if found != nil {
		c.queue.Add(unitOf(source, found.GetAnnotations()[release.Annotation]))
	}
}
