// Package rollout is the controller that makes a change of a ConfigMap or a Secret a revision of
// the workloads that are triggered by it: an immutable copy, and a pod template that uses the copy.
// A rollout can be watched, paused and undone like any other revision.
//
// It works on three queues. One has workloads: what should their templates have? The second has
// copies: who owns them, and are they there? The third has Roles: which copies do they name? All
// compare the present state, and do not depend on the events that led to it.
//
// It does not know volumes, nodes, or how pods get at the copies.
package rollout

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/daemon/fairqueue"
	"github.com/liveconfig-csi/liveconfig/pkg/daemon/logkeys"
	"github.com/liveconfig-csi/liveconfig/pkg/daemon/workloop"
	"github.com/liveconfig-csi/liveconfig/pkg/release"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/copies"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/trigger"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/workload"
)

// FieldManager is the name under which the controller writes.
const FieldManager = api.ControllerName

// workers are how many workloads, and how many copies, are worked on at a time.
const workers = 4

// folding is how long a look at a copy waits for more to look at: hundreds of revisions can come to
// own one copy, and each write of its owners sends all of it to every watcher.
const folding = 500 * time.Millisecond

// A copy that has manyOwners can wait for more of them as long as longFolding: it goes with the
// last, not the first.
const (
	manyOwners  = 10
	longFolding = 5 * time.Second
)

// Config configures a controller.
type Config struct {
	// Client and Metadata reach the API server.
	Client   kubernetes.Interface
	Metadata metadata.Interface
	// DriverName is the CSI driver whose volumes' attributes are understood.
	DriverName string
	// Namespaces are those that the controller works in. None: all.
	Namespaces []string
	// Secrets decides whether Secrets may trigger. Without it nothing about Secrets is asked of the
	// API server.
	Secrets bool
	// Reloader decides whether annotations of Reloader are read as triggers.
	Reloader bool
	// SecretsByPod means that the driver reads Secrets with the credentials of the pods, which then
	// need access to copies.
	SecretsByPod bool
	// Pods decides whether the controller may list pods, to find those that block a rollout.
	Pods bool
	// Roles decides whether the controller writes the names of copies into Roles that ask for them.
	Roles bool
	// QuietPeriod is how long the sources of a workload must not have changed before a change is
	// rolled out.
	QuietPeriod time.Duration
	// Rate is how many changes are rolled out per second, over all workloads.
	Rate float64
	// HoldFailing decides whether a change waits while the rollout before it gets nowhere, where
	// the workload has no annotation about it.
	HoldFailing bool
	// ProgressDeadline is after how long without progress a rollout of a StatefulSet or DaemonSet
	// is failing.
	ProgressDeadline time.Duration
	// DryRun means that nothing is written but the log.
	DryRun bool
	// Events are written about workloads and sources.
	Events record.EventRecorder
	// Metrics count what happens, and Queues the work that waits; nil for no counts of that.
	Metrics *Metrics
	Queues  workqueue.MetricsProvider
	// Panics counts panics over one object, by the name of the queue; nil for no count.
	Panics *prometheus.CounterVec
}

// The limits of one namespace. Each has a burst, which is more than a namespace
// with hundreds of workloads needs, and goes on at a rate that leaves time for others.
const (
	// Bytes of volume attributes that are read.
	textBurst = 512 << 10
	textRate  = 64 << 10 // Per second.
	// Objects that the API server is asked for one by one, or that are copied. The rate is that of
	// rollouts if that is higher.
	requestBurst = 200
	requestRate  = 10 // Per second.
	// Events.
	eventBurst = 500
	eventRate  = 10 // Per second.
)

// The names of the queues in metrics.
const (
	queueWorkloads = "workloads"
	queueCopies    = "copies"
	queueRoles     = "roles"
)

// Controller is made by New.
type Controller struct {
	cfg          Config
	caches       *caches
	workloads    workqueue.TypedRateLimitingInterface[workload.Ref]
	copies       workqueue.TypedRateLimitingInterface[api.Ref]
	roles        workqueue.TypedRateLimitingInterface[types.NamespacedName]
	pacer        *pacer
	progress     *progressTracker
	access       *accessWaits
	reported     *workloop.Reported[workload.Ref]
	reportedGone *workloop.Reported[api.Ref]
	sourceEvents *sourceEvents
	blocked      *blockedLooks
	reportedRole *workloop.Reported[types.NamespacedName]
	verified     *verified
	uses         *templateUses

	// The limits of each namespace: bytes of attributes to read, requests, Events.
	attributeBytes, requests, events *fairqueue.Allowance

	// mu guards written, which holds for each workload the version that was last written over:
	// until the cache has another one, there is nothing to decide.
	mu      sync.Mutex
	written map[workload.Ref]string
}

// New returns a controller that does nothing until it runs.
func New(cfg Config) (*Controller, error) {
	caches, err := newCaches(cfg)
	if err != nil {
		return nil, err
	}
	c := &Controller{
		cfg: cfg, caches: caches, pacer: newPacer(cfg.QuietPeriod, cfg.Rate),
		progress: newProgressTracker(cfg.ProgressDeadline), access: newAccessWaits(),
		reported: workloop.NewReported[workload.Ref](), reportedGone: workloop.NewReported[api.Ref](),
		verified: &verified{uids: map[api.Ref]types.UID{}}, written: map[workload.Ref]string{},
		sourceEvents:   newSourceEvents(),
		blocked:        newBlockedLooks(),
		reportedRole:   workloop.NewReported[types.NamespacedName](),
		uses:           newTemplateUses(),
		attributeBytes: fairqueue.NewAllowance(textRate, textBurst),
		requests:       fairqueue.NewAllowance(max(requestRate, rate.Limit(cfg.Rate)), requestBurst),
		events:         fairqueue.NewAllowance(eventRate, eventBurst),
	}
	if err := c.listen(); err != nil {
		return nil, err
	}
	return c, nil
}

// Objects returns the caches of ConfigMaps and Secrets, which the controller fills when it runs:
// sources and copies. They have no content, and the marks of [stable.Mark].
func (c *Controller) Objects() map[api.Kind][]cache.SharedIndexInformer {
	all := map[api.Kind][]cache.SharedIndexInformer{}
	for kind, sources := range c.caches.sources {
		all[kind] = slices.Concat(sources, c.caches.copies[kind])
	}
	return all
}

// Obstacle returns why an edit of a source would reach pods by a rollout only: they have a copy of
// it, and not the source itself. It is empty for no reason.
func (c *Controller) Obstacle(o api.Ref) string {
	var users []string
	for _, h := range c.caches.triggeredBy(o) {
		if h.Config.Copies()[o.Local()] != "" {
			users = append(users, h.is.String())
		}
	}
	if len(users) == 0 {
		return ""
	}
	return fmt.Sprintf("the pods of %s have copies of it, because the annotation %s of the workload lists it: take it "+
		"out there, or remove the annotation %s here", slices.Min(users), trigger.TriggeredBy, release.Annotation)
}

// Ready returns nil once the controller has seen everything once.
func (c *Controller) Ready() error {
	if !c.caches.haveSynced() {
		return errors.New("the caches are being filled")
	}
	return nil
}

// Run works until ctx ends. It can be called once.
func (c *Controller) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	// Queues have goroutines from their beginning.
	c.workloads = newQueue(func(ref workload.Ref) string { return ref.Namespace }, fairqueue.Metrics{
		Name: queueWorkloads, Provider: c.cfg.Queues,
	})
	c.copies = newQueue(func(o api.Ref) string { return o.Namespace }, fairqueue.Metrics{
		Name: queueCopies, Provider: c.cfg.Queues,
	})
	c.roles = newQueue(func(role types.NamespacedName) string { return role.Namespace }, fairqueue.Metrics{
		Name: queueRoles, Provider: c.cfg.Queues,
	})
	wg.Go(func() { c.caches.run(ctx) })
	wg.Go(func() {
		<-ctx.Done()
		c.workloads.ShutDown()
		c.copies.ShutDown()
		c.roles.ShutDown()
	})
	if !cache.WaitForCacheSync(ctx.Done(), c.caches.haveSynced) {
		return nil // ctx has ended.
	}
	klog.FromContext(ctx).Info("Working", logkeys.DryRun, c.cfg.DryRun)
	for range workers {
		wg.Go(func() {
			workloop.Loop[workload.Ref]{Queue: c.workloads, Do: c.reconcile, Panics: c.cfg.Panics, Name: queueWorkloads}.Run(ctx)
		})
		wg.Go(func() {
			workloop.Loop[api.Ref]{Queue: c.copies, Do: c.reconcileCopy, Panics: c.cfg.Panics, Name: queueCopies}.Run(ctx)
		})
		wg.Go(func() {
			workloop.Loop[types.NamespacedName]{
				Queue: c.roles, Do: c.reconcileRole, Panics: c.cfg.Panics, Name: queueRoles,
			}.Run(ctx)
		})
	}
	<-ctx.Done()
	return nil
}

// listen has changes in the caches queue what they are about.
func (c *Controller) listen() error {
	var errs []error
	on := func(informer cache.SharedIndexInformer, changed func(old, now any)) {
		_, err := informer.AddEventHandler(workloop.OnChange(changed))
		errs = append(errs, err)
	}
	for kind, informers := range c.caches.sources {
		for _, informer := range informers {
			on(informer, func(old, now any) { c.sourceChanged(kind, old, now) })
		}
	}
	for kind, informers := range c.caches.copies {
		for _, informer := range informers {
			on(informer, func(old, now any) { c.copyChanged(kind, old, now) })
		}
	}
	for _, informer := range c.caches.everyWorkload() {
		on(informer, c.workloadChanged)
	}
	for _, informer := range c.caches.revisions {
		on(informer, c.revisionChanged)
	}
	for _, informer := range c.caches.roles {
		on(informer, c.roleChanged)
	}
	return errors.Join(errs...)
}

// either returns whichever of two items is there, the newer one first.
func either[T any](old, now any) (T, bool) {
	if item, ok := now.(T); ok {
		return item, true
	}
	item, ok := old.(T)
	return item, ok
}

func (c *Controller) sourceChanged(kind api.Kind, old, now any) {
	s, ok := either[*cachedSource](old, now)
	if !ok {
		return
	}
	o := api.Ref{Kind: kind, Namespace: s.Namespace, Name: s.Name}
	if now == nil {
		c.sourceEvents.forget(o)
	}
	if _, _, ok := copies.SplitName(s.Name); ok { // It may be a copy that has lost its label.
		c.queueCopies(s.Namespace, []api.Ref{o.Local()})
	}
	for _, h := range slices.Concat(c.caches.triggeredBy(o), c.reloadedBy(o)) {
		c.workloads.Add(h.is.Ref)
	}
	before, _ := old.(*cachedSource)
	if before == nil || !before.Carried.IsEqual(s.Carried) || before.Problem != s.Problem {
		for _, made := range c.caches.copiesOf(o) {
			c.copies.Add(api.Ref{Kind: kind, Namespace: made.Namespace, Name: made.Name})
		}
	}
	if before != nil && now != nil && before.CopyName == s.CopyName {
		return
	}
	c.copies.Add(api.Ref{Kind: kind, Namespace: s.Namespace, Name: s.CopyName}) // The copy may be missing.
	c.queueRoles(o)
	c.queueRolesNaming(o)
}

func (c *Controller) copyChanged(kind api.Kind, old, now any) {
	switch {
	case old == nil:
		c.cfg.Metrics.copies.Inc()
	case now == nil:
		c.cfg.Metrics.copies.Dec()
	}
	made, ok := either[*cachedCopy](old, now)
	if !ok {
		return
	}
	if now == nil {
		c.verified.forget(api.Ref{Kind: kind, Namespace: made.Namespace, Name: made.Name})
	}
	c.queueCopies(made.Namespace, []api.Ref{{Kind: kind, Name: made.Name}}) // Also when it is gone: somebody may need it.
	c.queueRolesOfCopy(kind, old, now)
}

func (c *Controller) workloadChanged(old, now any) {
	h, ok := either[*cachedWorkload](old, now)
	if !ok {
		return
	}
	c.workloads.Add(h.is.Ref)
	for _, item := range []any{old, now} {
		if h, ok := item.(*cachedWorkload); ok {
			c.queueCopies(h.Namespace, h.copies())
		}
	}
}

func (c *Controller) revisionChanged(old, now any) {
	before, _ := old.(*cachedRevision)
	after, _ := now.(*cachedRevision)
	if before == nil && after != nil && (after.Plain || after.Doubt != nil) {
		if h, found := c.caches.workloadOf(after); found {
			c.workloads.Add(h.is.Ref) // It may count as done already: revisions come by another watch.
		}
	}
	if before != nil && after != nil && before.UID == after.UID && before.is.Deleting == after.is.Deleting &&
		before.is.Owner == after.is.Owner {
		return // The rest of a revision does not change.
	}
	for _, r := range []*cachedRevision{before, after} {
		if r != nil {
			c.queueCopies(r.Namespace, r.Uses)
		}
	}
}

// queueCopies queues copies after a short wait. Further changes in that time cause no further look.
func (c *Controller) queueCopies(namespace string, objects []api.Ref) {
	for _, o := range objects {
		key, wait := o.In(namespace), folding
		if made, found := c.caches.copied(key); found && len(made.OwnerReferences) >= manyOwners {
			wait = longFolding
		}
		c.copies.AddAfter(key, wait)
	}
}
