// Package controller releases edits of ConfigMaps and Secrets: it checks an edit, has the drivers
// show it to some pods, watches those, and then promotes the edit or takes it back.
//
// All that it knows is in the objects and their stable copies, so it may be killed at any time. It
// writes nothing but stable copies. It does not know nodes, drivers, or rollouts by restart.
package controller

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/daemon/fairqueue"
	"github.com/liveconfig-csi/liveconfig/pkg/daemon/logkeys"
	"github.com/liveconfig-csi/liveconfig/pkg/daemon/workloop"
	"github.com/liveconfig-csi/liveconfig/pkg/release/plan"
	"github.com/liveconfig-csi/liveconfig/pkg/release/settings"
	"github.com/liveconfig-csi/liveconfig/pkg/release/stable"
	"github.com/liveconfig-csi/liveconfig/pkg/release/validation"
)

// FieldManager is the name under which the controller writes.
const FieldManager = api.ControllerName

// queueName is the name of the queue in metrics.
const queueName = "releases"

// workers are how many units are worked on at a time.
const workers = 4

// Times between attempts that failed.
const (
	firstUnitRetry   = 20 * time.Millisecond
	longestUnitRetry = 30 * time.Second
)

// The limits of one namespace. Each has a burst, which is more than an edit of hundreds of objects
// needs, and goes on at a rate that leaves time for others.
const (
	// Requests to read or write one object.
	requestBurst = 1000
	requestRate  = 50 // Per second.
	// Events.
	eventBurst = 500
	eventRate  = 10 // Per second.
)

// goneTime is how long an object must be gone before its stable copy is deleted: editors and
// `kubectl replace --force` delete an object and create it again.
const goneTime = 10 * time.Second

// Config configures a controller. Fields whose comments have what nil means are not required.
type Config struct {
	Client kubernetes.Interface
	// Objects are caches of the ConfigMaps and Secrets that can be released, with the marks of
	// [stable.Mark]. New adds indexes to them, and another part of the program runs them.
	Objects map[api.Kind][]cache.SharedIndexInformer
	// Obstacle returns why no pod would get an edit of an object; empty for no reason. Nil if there
	// is never one.
	Obstacle func(api.Ref) string
	// DriverName is the CSI driver whose volumes' attributes are understood.
	DriverName string
	// QuietPeriod is how long the objects of a group must be unchanged before the first step.
	QuietPeriod time.Duration
	// Check checks an edit by the rules of its object.
	Check func(context.Context, []settings.Rule, validation.Content) ([]validation.Problem, error)
	// Events are written about the objects.
	Events record.EventRecorder
	// Registry is where the metrics are registered.
	Registry prometheus.Registerer
	// Queues counts the work that waits.
	Queues workqueue.MetricsProvider
	// Panics counts panics over one unit; nil for no count.
	Panics *prometheus.CounterVec
	// Drivers report what the files of pods have; nil if they cannot be asked. Then releases go by
	// the time alone.
	Drivers Drivers
	// DryRun means that nothing is written but the log.
	DryRun bool
}

// Controller is made by New.
type Controller struct {
	cfg      Config
	run      string // Stands for this process, in notes of checks.
	objects  *objects
	pods     *podCaches
	checks   *checks
	proofs   *proofs
	unkept   *unkept
	noted    sync.Map // The copies with a note of a check, perhaps.
	known    *knownObjects
	settings *lastSettings
	writer   stable.Writer
	seen     *seenPods
	reports  *reports
	metrics  *metrics
	requests *fairqueue.Allowance
	reading  *fairqueue.Semaphore // Of reads of pods.
	started  time.Time
	clock    clock
	events   *fairqueue.Allowance
	queue    workqueue.TypedRateLimitingInterface[unit]
}

// New returns a controller that does nothing until it runs.
func New(cfg Config) (*Controller, error) {
	found, err := newObjects(cfg.Objects)
	if err != nil {
		return nil, err
	}
	c := &Controller{
		cfg: cfg, run: rand.Text(), objects: found, pods: newPodCaches(cfg), checks: newChecks(),
		proofs: newProofs(cfg.Drivers), known: newKnownObjects(),
		settings: newLastSettings(), unkept: &unkept{since: map[api.Ref]time.Time{}},
		writer:  stable.Writer{Client: cfg.Client, Manager: FieldManager},
		reading: fairqueue.NewSemaphoreForEach(readsAtATime, 1), started: time.Now(),
		seen: &seenPods{units: map[unit]*seenOfUnit{}}, reports: newReports(), metrics: newMetrics(),
		requests: fairqueue.NewAllowance(requestRate, requestBurst), events: fairqueue.NewAllowance(eventRate, eventBurst),
	}
	return c, c.metrics.register(cfg.Registry)
}

// Run works until ctx ends. It can be called once.
func (c *Controller) Run(ctx context.Context) error {
	c.queue = fairqueue.NewWorkQueue(func(u unit) string { return u.namespace },
		workqueue.NewTypedItemExponentialFailureRateLimiter[unit](firstUnitRetry, longestUnitRetry),
		fairqueue.Metrics{Name: queueName, Provider: c.cfg.Queues})
	if err := c.listen(); err != nil {
		return err
	}
	var working sync.WaitGroup
	if cache.WaitForCacheSync(ctx.Done(), c.objects.haveSynced) {
		for range workers {
			working.Go(func() {
				workloop.Loop[unit]{Queue: c.queue, Do: c.work, Panics: c.cfg.Panics, Name: queueName}.Run(ctx)
			})
		}
	}
	<-ctx.Done()
	c.queue.ShutDown()
	working.Wait() // Workers start caches of pods and checks.
	c.pods.wait()
	c.checks.wait()
	c.proofs.wait()
	c.removeNotes(ctx)
	return nil
}

// work works on one unit of the queue.
func (c *Controller) work(ctx context.Context, u unit) error {
	if wait := c.requests.Debt(u.namespace); wait > 0 {
		c.queue.AddAfter(u, wait)
		return nil
	}
	after, err := c.reconcile(ctx, u)
	if apierrors.IsAlreadyExists(err) {
		return errors.Join(workloop.ErrBehind, err) // The caches will show what has happened.
	}
	if err == nil && after > 0 {
		c.queue.AddAfter(u, after)
	}
	return err
}

// errNotSynced is why a unit waits: nothing is known of its pods yet.
var errNotSynced = fmt.Errorf("%w: the cache of pods is being filled", workloop.ErrBehind)

// reconcile does what is to be done about a unit now, and returns when to look again; zero for when
// something changes.
func (c *Controller) reconcile(ctx context.Context, u unit) (after time.Duration, err error) {
	members, err := c.members(ctx, u)
	if err != nil {
		return 0, err
	}
	if len(members) == 0 {
		c.metrics.forget(u)
		c.seen.forget(u)
		c.checks.forget(u)
		c.proofs.forget(u)
		return c.clean(ctx, u)
	}
	c.reportMistakes(ctx, members)
	members = c.without(members, time.Now())
	isHeld := slices.ContainsFunc(members, (*member).isWrong)
	c.reportBlocked(ctx, members)
	if isHeld {
		c.queue.AddAfter(u, blockedTime) // Then the others of a group may go on, or a workload has changed.
	}
	if slices.ContainsFunc(members, func(m *member) bool { return m.misfit() != "" }) {
		return 0, nil // The stable copy is somebody's object.
	}
	if !isHeld {
		if err := c.createCopies(ctx, u, members); err != nil {
			return 0, err
		}
	}
	if slices.ContainsFunc(members, func(m *member) bool { return m.copy == nil }) {
		return 0, nil // A mistake, a dry run, or the API server refuses the copy: then an Event has the reason.
	}
	if err := c.dropNotes(ctx, members); err != nil {
		return 0, err
	}
	if err := c.settle(ctx, members); err != nil {
		return 0, err
	}
	if err := c.remember(ctx, members); err != nil {
		return 0, err
	}
	for _, m := range members {
		m.releasedAt = c.known.releasedAt(m.ref(), m.copy.CreatedAt)
	}
	return c.step(ctx, u, members, isHeld)
}

// step decides what to do about members that have copies, and does it. The first member decides how
// they are released. They are written in the order of their names, as the plugin does: so if both
// act at once, the first object stops one of them.
func (c *Controller) step(
	ctx context.Context, u unit, members []*member, isHeld bool,
) (after time.Duration, err error) {
	pods, reads, isSynced := c.pods.of(ctx, u, members, c.queue.Add)
	if !isSynced {
		return 0, errNotSynced
	}
	first := members[0]
	members = slices.SortedFunc(slices.Values(members), func(a, b *member) int {
		return cmp.Compare(a.name(), b.name())
	})
	state := c.planOf(u, members, pods)
	state.Settings, state.Reads = c.settings.of(first), reads
	if jumped := c.clock.look(state.Now, time.Since(c.started)); jumped.After(reads.BrokenAt) {
		state.Reads.BrokenAt = jumped
	}
	state.IsHeld = isHeld
	d := plan.Decide(state)
	c.metrics.note(u, members)
	c.reportWaiting(ctx, members, state.Now)
	switch d.Action {
	case plan.Rest:
		c.seen.look(u, state)
		c.reportTakenBack(ctx, members, d, state.Now)
		c.reportShared(ctx, members, state)
		return d.After, nil
	case plan.Ask:
		c.proofs.ask(ctx, u, state, d.Pods, wantedOf(members, state), c.queue.Add)
		return 0, nil
	case plan.Read:
		c.readPods(ctx, u.namespace, reads.At)
		return readAgain, nil
	case plan.Clear, plan.Check, plan.Expose, plan.Promote:
	}
	if c.cfg.DryRun {
		klog.FromContext(ctx).Info("The controller would act on a release", logkeys.Key, u.String(), logkeys.Action,
			string(d.Action))
		return 0, nil
	}
	isDone, err := c.act(ctx, u, members, state, d)
	if err != nil {
		c.seen.forget(u) // The pods did not get what they were looked at for.
		return 0, fmt.Errorf("%s: %w", u, err)
	}
	if !isDone {
		return 0, nil // The check that is under way queues the unit again.
	}
	return time.Millisecond, nil // The next decision is made from what was written.
}

// planOf returns what is to be decided about, but for the settings.
func (c *Controller) planOf(u unit, members []*member, pods []plan.Pod) plan.Unit {
	state := plan.Unit{Quiet: c.cfg.QuietPeriod, Now: time.Now()}
	for _, m := range members {
		state.Objects = append(state.Objects, plan.Object{
			Name: m.name(), Version: m.source.Version, Candidate: m.source.Digest, Stable: m.copy.Digest,
			Exposure: m.copy.Exposure(),
			Together: m.copy.Together(), ChangedAt: c.known.changedAt(m.ref()),
			Rules: m.source.Annotation,
		})
	}
	state.CanProve = c.proofs.drivers != nil
	state.Pods = c.proofs.of(u, state, c.seen.of(u, state.Objects, pods))
	return state
}
