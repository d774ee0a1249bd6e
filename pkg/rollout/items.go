package rollout

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/api/content"
	"github.com/liveconfig-csi/liveconfig/pkg/release"
	"github.com/liveconfig-csi/liveconfig/pkg/release/stable"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/copies"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/reloader"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/template"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/trigger"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/workload"
)

// cachedSource is what the caches store of a ConfigMap or Secret that may be a trigger: no content.
type cachedSource struct {
	metav1.ObjectMeta

	// CopyName is what a copy of the object as it is now is called.
	CopyName string
	// Keys are the names of its keys, in order.
	Keys []string
	// Carried are the labels and annotations that its copies have too.
	Carried copies.Carried
	// IsReleased means that its edits reach pods step by step, without a restart.
	IsReleased bool
	// Mark is what its annotations of Reloader mean, and its type.
	Mark reloader.Mark
	// Problem is why it cannot be copied. Empty: it can.
	Problem string
	// ChangedAt is when it was last written, by the API server's clock and in whole seconds.
	ChangedAt time.Time
}

// Has reports whether the object has a key.
func (s *cachedSource) Has(key string) bool {
	_, found := slices.BinarySearch(s.Keys, key)
	return found
}

// cachedWorkload is what the caches store of a workload.
type cachedWorkload struct {
	metav1.ObjectMeta

	is workload.Workload

	// Triggers are what the workload is triggered by, as far as Trouble lets them be known.
	Triggers []api.Ref
	OptedIn  bool
	// IsReloaded means that annotations of Reloader decide both. In the caches, Triggers are then
	// those that the annotations name by plain names.
	IsReloaded bool
	// Config is that of the pod template; nil if it has none.
	Config trigger.Config
	// Broken means that it has one which cannot be read.
	Broken bool
	// Uses are nil in the caches: to read them takes time, which each namespace has so much of.
	Uses []template.Use
	// Sum stands for the pod template: another template has another.
	Sum string
	// Trouble is what of the workload cannot be read. Empty: nothing.
	Trouble string
}

// cachedRevision is what the caches store of a ReplicaSet or a ControllerRevision.
type cachedRevision struct {
	metav1.ObjectMeta

	is workload.Revision

	// Config is the config of its pod template, or what stands for that where it cannot be read,
	// and Copies what it has of copies.
	Config string
	Copies map[api.Ref]string
	// Uses are the copies that its pod template names, and perhaps others.
	Uses []api.Ref
	// Plain means that its pod template names a source of which its config has a copy: it was there
	// for a moment, until the names were pointed to the copies again.
	Plain bool
	// Doubt is not nil if that is not known before the attributes of its volumes are read.
	Doubt *doubt
	// Wishes are the annotations of users that the workload had while the revision was its newest.
	Wishes map[string]string
}

// isPlain reports whether a pod template that has the config, and names what it uses, names a
// source of which there is a copy, or is to be one.
func isPlain(config trigger.Config, uses []template.Use) bool {
	return slices.ContainsFunc(uses, func(u template.Use) bool { return config[u.Object] != "" })
}

// cachedCopy is what the caches store of a copy.
type cachedCopy struct {
	metav1.ObjectMeta

	// Carried is what its annotation lists as carried from its source.
	Carried copies.Carried
}

// indexedMetadata is the part of an object's metadata that caches and indexes need.
func indexedMetadata(o metav1.Object) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: o.GetNamespace(), Name: o.GetName(), UID: o.GetUID(), ResourceVersion: o.GetResourceVersion(),
	}
}

// copies returns the copies that the workload's template has by its config.
func (h *cachedWorkload) copies() []api.Ref {
	var found []api.Ref
	for o, name := range h.Config.Copies() {
		found = append(found, o.Named(name))
	}
	return found
}

// changedAt returns the latest time at which somebody is known to have written an object.
func changedAt(o metav1.Object) time.Time {
	return cmp.Or(content.ChangedAt(o), o.GetCreationTimestamp().Time)
}

// sourceOf is the transform of caches of ConfigMaps and Secrets.
func sourceOf(object any) (any, error) {
	switch o := object.(type) {
	case *corev1.ConfigMap:
		return newSource(o, api.Ref{Kind: api.ConfigMap, Name: o.Name}, copies.DigestOf(o),
			slices.Collect(keysOf(o.Data, o.BinaryData)), nil), nil
	case *corev1.Secret:
		return newSource(o, api.Ref{Kind: api.Secret, Name: o.Name}, copies.DigestOf(o), slices.Collect(maps.Keys(o.Data)),
			copies.Copyable(o)), nil
	default:
		return object, nil // It has been transformed already, or is a tombstone.
	}
}

func newSource(o metav1.Object, is api.Ref, digest copies.Digest, keys []string, problem error) *cachedSource {
	slices.Sort(keys)
	s := &cachedSource{
		ObjectMeta: indexedMetadata(o), CopyName: copies.Name(o.GetName(), digest), Keys: keys, ChangedAt: changedAt(o),
	}
	stable.Mark(&s.ObjectMeta, o)
	_, s.IsReleased = s.Annotations[release.Annotation]
	if s.Mark = reloader.MarkOf(o.GetAnnotations()); problem != nil && s.Mark != reloader.Ignored {
		s.Mark = reloader.Uncopyable
	}
	carried, err := copies.CarriedBy(o)
	switch {
	case problem != nil:
		s.Problem = problem.Error()
	case err != nil:
		s.Problem = fmt.Sprintf("%s: %v", is, err)
	default:
		s.Carried = carried
	}
	return s
}

func keysOf(data map[string]string, binary map[string][]byte) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for key := range data {
			if !yield(key) {
				return
			}
		}
		for key := range binary {
			if !yield(key) {
				return
			}
		}
	}
}

// copyOf is the transform of caches of copies, which hold metadata only.
func copyOf(object any) (any, error) {
	o, ok := object.(*metav1.PartialObjectMetadata)
	if !ok {
		return object, nil
	}
	c := &cachedCopy{ObjectMeta: indexedMetadata(o)}
	c.Carried, _ = copies.CarriedBy(o) // Somebody else has written what cannot be read; it is written over.
	c.OwnerReferences = o.OwnerReferences
	c.CreationTimestamp = o.CreationTimestamp
	c.DeletionTimestamp = o.DeletionTimestamp
	c.Annotations = o.Annotations
	stable.Mark(&c.ObjectMeta, o)
	return c, nil
}

// workloadTransform returns the transform of caches of workloads. Of a workload without triggers it
// stores the name only.
func workloadTransform(cfg Config) cache.TransformFunc {
	return func(object any) (any, error) {
		switch o := object.(type) {
		case *appsv1.Deployment:
			return newCachedWorkload(cfg, o, workload.OfDeployment(o)), nil
		case *appsv1.StatefulSet:
			return newCachedWorkload(cfg, o, workload.OfStatefulSet(o)), nil
		case *appsv1.DaemonSet:
			return newCachedWorkload(cfg, o, workload.OfDaemonSet(o)), nil
		default:
			return object, nil
		}
	}
}

func newCachedWorkload(cfg Config, o metav1.Object, w workload.Workload) *cachedWorkload {
	h := &cachedWorkload{ObjectMeta: indexedMetadata(o)}
	value, key, optedIn := trigger.Wanted(w.Annotations)
	config, hasConfig := w.Template.Annotations[trigger.ConfigAnnotation]
	_, hasLabel := w.Labels[trigger.RolloutLabel]
	h.IsReloaded = cfg.Reloader && !optedIn && askOfReloader(w).IsAsking()
	if !optedIn && !h.IsReloaded && !hasConfig && !hasLabel {
		h.is = workload.Workload{Ref: w.Ref, UID: w.UID, ResourceVersion: w.ResourceVersion}
		return h
	}
	h.is, h.OptedIn, h.Sum = w, optedIn, sumOf(w.Template)
	var err error
	if optedIn {
		h.Triggers, err = trigger.Parse(value)
		h.addTrouble(fmt.Sprintf("the annotation %s: ", key), err)
	}
	if h.IsReloaded {
		h.Triggers = askOfReloader(w).Named() // Regular expressions are for the workers.
	}
	if hasConfig {
		h.Config, err = trigger.ParseConfig(config)
		if h.Broken = err != nil; h.Broken {
			h.addTrouble("", fmt.Errorf("%w; remove it, and the next edit of a source is rolled out", err))
		}
	}
	return h
}

func (h *cachedWorkload) addTrouble(about string, err error) {
	if err == nil {
		return
	}
	if h.Trouble != "" {
		h.Trouble += "; "
	}
	h.Trouble += about + err.Error()
}

func sumOf(t *corev1.PodTemplateSpec) string {
	encoded, err := t.Marshal()
	if err != nil {
		return "" // Anything that was decoded can be encoded.
	}
	sum := sha256.Sum256(encoded)
	return hex.EncodeToString(sum[:8])
}

// revisionTransform returns the transform of caches of ReplicaSets and ControllerRevisions.
// Templates are not stored.
func revisionTransform(driver string) cache.TransformFunc {
	return func(object any) (any, error) {
		switch o := object.(type) {
		case *appsv1.ReplicaSet:
			return newRevision(o, workload.OfReplicaSet(o), driver), nil
		case *appsv1.ControllerRevision:
			r, ok := workload.OfControllerRevision(o)
			if !ok {
				return &cachedRevision{ObjectMeta: indexedMetadata(o)}, nil
			}
			return newRevision(o, r, driver), nil
		default:
			return object, nil
		}
	}
}

func newRevision(o metav1.Object, w workload.Revision, driver string) *cachedRevision {
	r := &cachedRevision{ObjectMeta: indexedMetadata(o), is: w}
	r.look(template.Place{Namespace: o.GetNamespace(), Driver: driver})
	for _, key := range trigger.Wishes() {
		if value, found := o.GetAnnotations()[key]; found {
			if r.Wishes == nil {
				r.Wishes = map[string]string{}
			}
			r.Wishes[key] = value
		}
	}
	r.is.Template = nil
	return r
}
