package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/daemon/clientmetrics"
	"github.com/liveconfig-csi/liveconfig/pkg/daemon/logkeys"
	"github.com/liveconfig-csi/liveconfig/pkg/daemon/server"
	"github.com/liveconfig-csi/liveconfig/pkg/daemon/telemetry"
	"github.com/liveconfig-csi/liveconfig/pkg/daemon/version"
	"github.com/liveconfig-csi/liveconfig/pkg/daemon/workloop"
	"github.com/liveconfig-csi/liveconfig/pkg/nodes"
	"github.com/liveconfig-csi/liveconfig/pkg/nodetaint"
	releases "github.com/liveconfig-csi/liveconfig/pkg/release/controller"
	"github.com/liveconfig-csi/liveconfig/pkg/release/validation/isolated"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout"
)

// The times of the lease, which are those of Kubernetes' own controllers: a leader that hears
// nothing stops working before another can begin.
const (
	leaseDuration = 15 * time.Second
	renewDeadline = 10 * time.Second
	retryPeriod   = 2 * time.Second
)

// run is the whole program: it works until ctx ends or something it needs breaks.
func run(ctx context.Context, args []string, getenv func(string) string, stderr io.Writer) error {
	cfg, err := parseFlags(args, getenv, stderr)
	if err != nil {
		return err
	}
	if err := telemetry.SetUpLogging(stderr, cfg.logFormat, cfg.verbosity); err != nil {
		return err
	}
	logger := klog.Background()
	ctx = klog.NewContext(ctx, logger)
	logger.Info("Starting", logkeys.Version, version.Version(), logkeys.Identity, cfg.identity)
	p, err := newParts(ctx, cfg)
	if err != nil {
		return err
	}
	defer p.broadcaster.Shutdown()
	g, ctx := errgroup.WithContext(ctx)
	if cfg.httpEndpoint != "" {
		l, err := server.ListenHTTP(ctx, cfg.httpEndpoint)
		if err != nil {
			return err
		}
		g.Go(func() error { return server.ServeHTTP(ctx, l, p.mux()) })
	}
	g.Go(func() error { return p.work(ctx, cfg) })
	if err := g.Wait(); err != nil {
		return err
	}
	logger.Info("Stopped")
	return nil
}

// parts are what the controller is put together from.
type parts struct {
	client      kubernetes.Interface
	registry    *prometheus.Registry
	broadcaster record.EventBroadcaster
	controller  *rollout.Controller
	releases    *releases.Controller // Nil where nothing is released.
	taints      *nodetaint.Remover   // Nil where no taint is to be removed.
	lease       *leaderelection.HealthzAdaptor

	// mu guards phase.
	mu    sync.Mutex
	phase phase
}

func newParts(ctx context.Context, cfg config) (*parts, error) {
	cluster, err := clientcmd.BuildConfigFromFlags("", cfg.kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read how to reach the API server (see --kubeconfig): %w", err)
	}
	cluster.UserAgent = "liveconfig-controller/" + version.Version()
	cluster.QPS = -1 // The API server's own priority and fairness paces requests, and --rollout-rate what causes them.
	cluster.ContentType = "application/vnd.kubernetes.protobuf"
	client, err := kubernetes.NewForConfig(cluster)
	if err != nil {
		return nil, fmt.Errorf("make a client of the API server: %w", err)
	}
	meta, err := metadata.NewForConfig(cluster)
	if err != nil {
		return nil, fmt.Errorf("make a client of the API server: %w", err)
	}
	p := &parts{
		client: client, registry: prometheus.NewRegistry(), lease: leaderelection.NewLeaderHealthzAdaptor(leaseDuration),
		broadcaster: record.NewBroadcaster(record.WithContext(ctx)),
	}
	p.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	if !cfg.dryRun {
		p.broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events("")})
	}
	events := p.broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: api.ControllerName})
	queues, err := clientmetrics.NewQueues(p.registry)
	if err != nil {
		return nil, err
	}
	if err := clientmetrics.Register(p.registry); err != nil {
		return nil, err
	}
	panics, err := workloop.NewPanics(p.registry, "workloads", "copies", "roles", "releases", "nodes")
	if err != nil {
		return nil, err
	}
	p.controller, err = rollout.New(rollout.Config{
		Client: client, Metadata: meta, DriverName: cfg.driverName, Namespaces: cfg.namespaceList(), Secrets: cfg.secrets,
		SecretsByPod: cfg.secretIdentity == "pod", Roles: cfg.roles, Pods: cfg.releases, Reloader: cfg.compatReloader,
		QuietPeriod: cfg.quietPeriod, Rate: cfg.rolloutRate,
		HoldFailing: cfg.holdFailing, ProgressDeadline: cfg.progressDeadline, DryRun: cfg.dryRun,
		Events:  events,
		Metrics: rollout.NewMetrics(p.registry), Queues: queues, Panics: panics,
	})
	if err != nil {
		return nil, err
	}
	if cfg.releases {
		c := releases.Config{Events: events, Queues: queues, Panics: panics}
		if cfg.evidence {
			c.Drivers = drivers{nodes.NewWithin(cluster, client, cfg.driverNamespace, reportLimits)}
		}
		if p.releases, err = newReleases(cfg, p, c); err != nil {
			return nil, err
		}
	}
	if cfg.nodeTaint {
		p.taints, err = nodetaint.New(nodetaint.Config{
			Client: client, DriverName: cfg.driverName, Namespace: cfg.driverNamespace, Selector: cfg.driverSelector,
			Registry: p.registry, DryRun: cfg.dryRun, Queues: queues, Panics: panics,
		})
		if err != nil {
			return nil, err
		}
	}
	p.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "liveconfig_controller_working",
		Help: "1 while this process works; 0 while it waits for the lease or fills its caches.",
	}, p.working))
	return p, nil
}

// newReleases adds to a configuration of releases what the flags decide.
func newReleases(cfg config, p *parts, c releases.Config) (*releases.Controller, error) {
	checker, err := isolated.New()
	if err != nil {
		return nil, err
	}
	c.Client, c.Objects, c.DriverName, c.QuietPeriod = p.client, p.controller.Objects(), cfg.driverName, cfg.quietPeriod
	c.Obstacle = p.controller.Obstacle
	c.Check, c.Registry, c.DryRun = checker.Check, p.registry, cfg.dryRun
	return releases.New(c)
}

// drivers asks the drivers of nodes through port-forwards.
type drivers struct{ *nodes.Drivers }

// reportLimits leave room in the container. A namespace with 500 volumes on one node has some 500
// KiB of reports, and a decoded report takes a few times its length.
var reportLimits = nodes.Limits{Report: 2 << 20, AtOnce: 4}

// Ask returns an answer for each node.
func (d drivers) Ask(ctx context.Context, namespace string, names []string) map[string]releases.Answer {
	answers := map[string]releases.Answer{}
	for node, answer := range d.ReportsOf(ctx, names, namespace) {
		if answer.Err != nil { // A nil one would be an error that is not nil.
			answers[node] = releases.Answer{Err: answer.Err}
		} else {
			r := answer.Report
			answers[node] = releases.Answer{Volumes: r.Volumes, Started: r.Started, Now: r.Now}
		}
	}
	return answers
}

// working is a metric.
func (p *parts) working() float64 {
	if p.isLeading() && p.areSynced() == nil {
		return 1
	}
	return 0
}

// work runs the controller while this process holds the lease. A process that has lost it ends: it
// cannot know what another one has done since, and a new one reads that from the API server.
func (p *parts) work(ctx context.Context, cfg config) error {
	if !cfg.leaderElect {
		p.enter(leading)
		return p.lead(ctx)
	}
	election, giveUp := context.WithCancel(context.WithoutCancel(ctx))
	defer giveUp()
	defer context.AfterFunc(ctx, func() {
		if p.enter(over) {
			giveUp() // The leader releases the lease when the work has stopped.
		}
	})()
	result := make(chan error, 1)
	lock := p.newLock(cfg)
	elector, err := p.newElector(cfg, lock, func(held context.Context) {
		if !p.enter(leading) {
			return
		}
		work, stop := context.WithCancel(held)
		defer stop()
		defer context.AfterFunc(ctx, stop)()
		result <- p.lead(work)
		giveUp()
	})
	if err != nil {
		return err
	}
	elector.Run(election)
	lost := election.Err() == nil
	if !p.enter(over) && p.isLeading() {
		err = <-result
	}
	if lost {
		return errors.Join(errors.New("the lease was lost: another controller may be working"), err)
	}
	giveBack(ctx, lock)
	return err
}

// lead runs the parts of the controller that has the lease. It stops all of them when ctx ends or
// one returns an error, and returns the first error.
func (p *parts) lead(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return p.controller.Run(ctx) })
	if p.releases != nil {
		g.Go(func() error { return p.releases.Run(ctx) })
	}
	if p.taints != nil {
		g.Go(func() error { return p.taints.Run(ctx) })
	}
	return g.Wait()
}

// areSynced returns nil once the working controller has seen everything once.
func (p *parts) areSynced() error {
	if p.taints != nil && !p.taints.HaveSynced() {
		return errors.New("the caches of nodes are being filled")
	}
	return p.controller.Ready()
}

func (p *parts) newLock(cfg config) resourcelock.Interface {
	return &resourcelock.LeaseLock{
		LeaseMeta: metav1.ObjectMeta{Namespace: cfg.leaseNamespace, Name: cfg.leaseName},
		Client:    p.client.CoordinationV1(), LockConfig: resourcelock.ResourceLockConfig{Identity: cfg.identity},
	}
}

// newElector does not have the elector release the lease: it would do so before it stops the work,
// and try for as long as another could begin meanwhile.
func (p *parts) newElector(
	cfg config, lock resourcelock.Interface, lead func(context.Context),
) (*leaderelection.LeaderElector, error) {
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: lock, LeaseDuration: leaseDuration, RenewDeadline: renewDeadline, RetryPeriod: retryPeriod, Name: cfg.leaseName,
		Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: lead, OnStoppedLeading: func() {}},
	})
	if err != nil {
		return nil, fmt.Errorf("prepare the election of a leader: %w", err)
	}
	p.lease.SetLeaderElection(elector)
	return elector, nil
}

// giveBack lets another process take the lease at once, if it is this one's.
func giveBack(ctx context.Context, lock resourcelock.Interface) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), renewDeadline)
	defer cancel()
	record, _, err := lock.Get(ctx)
	if err == nil && record.HolderIdentity == lock.Identity() {
		record.HolderIdentity, record.LeaseDurationSeconds = "", 1
		err = lock.Update(ctx, *record)
	}
	if err != nil && !apierrors.IsNotFound(err) {
		klog.FromContext(ctx).Error(err, "The controller cannot release its lease, which will expire")
	}
}

// phase is how far a process has come.
type phase int

const (
	waiting phase = iota // For the lease.
	leading
	over
)

// enter has a process that waits go on, and reports whether it did wait.
func (p *parts) enter(next phase) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.phase != waiting {
		return false
	}
	p.phase = next
	return true
}

func (p *parts) isLeading() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.phase == leading
}

// ready returns nil once the process does its part: it works with full caches, or waits for the
// lease.
func (p *parts) ready() error {
	if !p.isLeading() {
		return nil
	}
	return p.areSynced()
}

func (p *parts) mux() *http.ServeMux {
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(p.registry, promhttp.HandlerOpts{}))
	mux.Handle("/healthz", server.Health(func() error { return p.lease.Check(nil) }))
	mux.Handle("/readyz", server.Health(p.ready))
	return mux
}
