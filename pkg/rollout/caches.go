package rollout

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/copies"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/workload"
)

// The indexes of the caches.
const (
	byTrigger = "trigger" // Workloads, by what triggers them.
	byReload  = "reload"  // Workloads that annotations of Reloader decide about, by their namespaces.
	byUse     = "use"     // Workloads and revisions, by what their templates name.
	bySource  = "source"  // Copies and Roles, by the sources that their annotations name.
	byOwner   = "owner"   // Revisions, by the owner that is their workload.
	byUID     = "uid"     // Workloads that have to do with triggers, as owners.
)

// owner is a workload as its revisions name it, and a key of indexes. An owner is named by its UID
// inside of a namespace only: an object of another namespace can name any UID as its owner.
type owner struct {
	namespace string
	uid       types.UID
}

func (o owner) String() string { return o.namespace + "/" + string(o.uid) }

// caches hold what the controller knows of the cluster: for each namespace that it works in, or for
// all in one.
type caches struct {
	sources   map[api.Kind][]cache.SharedIndexInformer
	copies    map[api.Kind][]cache.SharedIndexInformer
	workloads map[workload.Kind][]cache.SharedIndexInformer
	revisions []cache.SharedIndexInformer
	roles     []cache.SharedIndexInformer
}

// newCaches returns caches that hold nothing until they run.
func newCaches(cfg Config) (*caches, error) {
	c := &caches{
		sources: map[api.Kind][]cache.SharedIndexInformer{}, copies: map[api.Kind][]cache.SharedIndexInformer{},
		workloads: map[workload.Kind][]cache.SharedIndexInformer{},
	}
	namespaces := cfg.Namespaces
	if len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceAll}
	}
	for _, namespace := range namespaces {
		if err := c.add(cfg, namespace); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func (c *caches) add(cfg Config, namespace string) error {
	scope := informers.WithNamespace(namespace)
	all := informers.NewSharedInformerFactoryWithOptions(cfg.Client, 0, scope).Apps().V1()
	originals := informers.NewSharedInformerFactoryWithOptions(cfg.Client, 0, scope,
		informers.WithTweakListOptions(selecting("!"+copies.Label))).Core().V1()
	copied := metadatainformer.NewFilteredSharedInformerFactory(cfg.Metadata, 0, namespace, selecting(copies.Label))

	c.sources[api.ConfigMap] = append(c.sources[api.ConfigMap], originals.ConfigMaps().Informer())
	c.copies[api.ConfigMap] = append(c.copies[api.ConfigMap], copied.ForResource(resource("configmaps")).Informer())
	if cfg.Secrets {
		c.sources[api.Secret] = append(c.sources[api.Secret], originals.Secrets().Informer())
		c.copies[api.Secret] = append(c.copies[api.Secret], copied.ForResource(resource("secrets")).Informer())
	}
	workloads := map[workload.Kind]cache.SharedIndexInformer{
		workload.Deployment: all.Deployments().Informer(), workload.StatefulSet: all.StatefulSets().Informer(),
		workload.DaemonSet: all.DaemonSets().Informer(),
	}
	revisions := []cache.SharedIndexInformer{all.ReplicaSets().Informer(), all.ControllerRevisions().Informer()}
	c.revisions = append(c.revisions, revisions...)

	var errs []error
	if cfg.Roles {
		roles := informers.NewSharedInformerFactoryWithOptions(cfg.Client, 0, scope).Rbac().V1().Roles()
		c.roles = append(c.roles, roles.Informer())
		errs = append(errs, last(c.roles).SetTransform(roleOf), last(c.roles).AddIndexers(roleIndexers()))
	}
	for kind, informer := range workloads {
		c.workloads[kind] = append(c.workloads[kind], informer)
		errs = append(errs, informer.SetTransform(workloadTransform(cfg)), informer.AddIndexers(workloadIndexers()))
	}
	for _, informer := range revisions {
		errs = append(errs, informer.SetTransform(revisionTransform(cfg.DriverName)),
			informer.AddIndexers(revisionIndexers()))
	}
	for kind := range c.sources {
		errs = append(errs, last(c.sources[kind]).SetTransform(sourceOf),
			last(c.copies[kind]).SetTransform(copyOf), last(c.copies[kind]).AddIndexers(copyIndexers()))
	}
	for _, err := range errs {
		if err != nil {
			return fmt.Errorf("set up the caches: %w", err)
		}
	}
	return nil
}

func last[T any](list []T) T { return list[len(list)-1] }

func selecting(labels string) func(*metav1.ListOptions) {
	return func(o *metav1.ListOptions) { o.LabelSelector = labels }
}

func resource(name string) schema.GroupVersionResource {
	return corev1.SchemeGroupVersion.WithResource(name)
}

func workloadIndexers() cache.Indexers {
	return cache.Indexers{
		byTrigger: func(o any) ([]string, error) {
			h, ok := o.(*cachedWorkload)
			if !ok {
				return nil, nil
			}
			return keys(h.Namespace, h.Triggers), nil
		},
		byReload: func(o any) ([]string, error) {
			h, ok := o.(*cachedWorkload)
			if !ok || !h.IsReloaded {
				return nil, nil
			}
			return []string{h.Namespace}, nil
		},
		byUse: func(o any) ([]string, error) {
			h, ok := o.(*cachedWorkload)
			if !ok {
				return nil, nil
			}
			return keys(h.Namespace, h.copies()), nil
		},
		byUID: func(o any) ([]string, error) {
			h, ok := o.(*cachedWorkload)
			if !ok || h.is.Template == nil {
				return nil, nil
			}
			return []string{owner{h.Namespace, h.UID}.String()}, nil
		},
	}
}

func revisionIndexers() cache.Indexers {
	return cache.Indexers{
		byOwner: func(o any) ([]string, error) {
			r, ok := o.(*cachedRevision)
			if !ok || r.is.Owner == "" {
				return nil, nil
			}
			return []string{owner{r.Namespace, r.is.Owner}.String()}, nil
		},
		byUse: func(o any) ([]string, error) {
			r, ok := o.(*cachedRevision)
			if !ok {
				return nil, nil
			}
			return keys(r.Namespace, r.Uses), nil
		},
	}
}

func copyIndexers() cache.Indexers {
	return cache.Indexers{
		bySource: func(o any) ([]string, error) {
			made, ok := o.(*cachedCopy)
			if !ok {
				return nil, nil
			}
			source, err := copies.SourceOf(made.Annotations)
			if err != nil {
				return nil, nil //nolint:nilerr // Somebody has written over it. It is a copy of nothing that is known.
			}
			return keys(made.Namespace, []api.Ref{source}), nil
		},
	}
}

func keys(namespace string, objects []api.Ref) []string {
	texts := make([]string, len(objects))
	for i, o := range objects {
		texts[i] = o.In(namespace).String()
	}
	return texts
}

// run fills the caches and keeps them current until ctx ends. It returns when all have stopped.
func (c *caches) run(ctx context.Context) {
	var running []chan struct{}
	for _, informer := range c.all() {
		done := make(chan struct{})
		running = append(running, done)
		go func() {
			defer close(done)
			informer.RunWithContext(ctx)
		}()
	}
	for _, done := range running {
		<-done
	}
}

// haveSynced reports whether each cache has been filled once.
func (c *caches) haveSynced() bool {
	return !slices.ContainsFunc(c.all(), func(i cache.SharedIndexInformer) bool { return !i.HasSynced() })
}

func (c *caches) all() []cache.SharedIndexInformer {
	all := slices.Concat(c.revisions, c.roles)
	for _, informers := range c.sources {
		all = append(all, informers...)
	}
	for _, informers := range c.copies {
		all = append(all, informers...)
	}
	for _, informers := range c.workloads {
		all = append(all, informers...)
	}
	return all
}

// find returns an object of the one cache that has it.
func find[T any](informers []cache.SharedIndexInformer, namespace, name string) (T, bool) {
	for _, informer := range informers {
		found, exists, err := informer.GetStore().GetByKey(namespace + "/" + name)
		if err != nil || !exists {
			continue
		}
		if item, ok := found.(T); ok {
			return item, true
		}
	}
	var none T
	return none, false
}

// indexed returns what an index has under a key.
func indexed[T any](informers []cache.SharedIndexInformer, index, key string) []T {
	var items []T
	for _, informer := range informers {
		found, err := informer.GetIndexer().ByIndex(index, key)
		if err != nil {
			continue // There is no other error than an unknown index.
		}
		for _, f := range found {
			if item, ok := f.(T); ok {
				items = append(items, item)
			}
		}
	}
	return items
}

func (c *caches) source(o api.Ref) (*cachedSource, bool) {
	return find[*cachedSource](c.sources[o.Kind], o.Namespace, o.Name)
}

func (c *caches) copied(o api.Ref) (*cachedCopy, bool) {
	return find[*cachedCopy](c.copies[o.Kind], o.Namespace, o.Name)
}

func (c *caches) copiesOf(o api.Ref) []*cachedCopy {
	return indexed[*cachedCopy](c.copies[o.Kind], bySource, o.String())
}

func (c *caches) workload(ref workload.Ref) (*cachedWorkload, bool) {
	return find[*cachedWorkload](c.workloads[ref.Kind], ref.Namespace, ref.Name)
}

func (c *caches) everyWorkload() []cache.SharedIndexInformer {
	var all []cache.SharedIndexInformer
	for _, informers := range c.workloads {
		all = append(all, informers...)
	}
	return all
}

func (c *caches) triggeredBy(o api.Ref) []*cachedWorkload {
	return indexed[*cachedWorkload](c.everyWorkload(), byTrigger, o.String())
}

func (c *caches) reloadedIn(namespace string) []*cachedWorkload {
	return indexed[*cachedWorkload](c.everyWorkload(), byReload, namespace)
}

func (c *caches) workloadsUsing(o api.Ref) []*cachedWorkload {
	return indexed[*cachedWorkload](c.everyWorkload(), byUse, o.String())
}

func (c *caches) revisionsUsing(o api.Ref) []*cachedRevision {
	return indexed[*cachedRevision](c.revisions, byUse, o.String())
}

// workloadOf returns the workload of a revision.
func (c *caches) workloadOf(r *cachedRevision) (*cachedWorkload, bool) {
	found := indexed[*cachedWorkload](c.everyWorkload(), byUID, owner{r.Namespace, r.is.Owner}.String())
	if len(found) == 0 {
		return nil, false
	}
	return found[0], true
}

// revisionsOf returns the revisions of a workload, oldest first. One that has no number yet is new.
func (c *caches) revisionsOf(h *cachedWorkload) []*cachedRevision {
	found := indexed[*cachedRevision](c.revisions, byOwner, owner{h.Namespace, h.is.UID}.String())
	age := func(r *cachedRevision) int64 {
		if r.is.Number == 0 {
			return math.MaxInt64
		}
		return r.is.Number
	}
	slices.SortFunc(found, func(a, b *cachedRevision) int { return cmp.Compare(age(a), age(b)) })
	return found
}
