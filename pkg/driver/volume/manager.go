package volume

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/api/statusz"
	"github.com/liveconfig-csi/liveconfig/pkg/daemon/fairqueue"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/source"
)

// parsers is how many publishes parse their attributes at a time. Parsing 64 KiB of YAML leaves
// some 10 MiB to the garbage collector: with four parsers, 200 such publishes at once took up to
// 100 MiB more, with two up to 69.
const parsers = 2

// resyncJitter spreads the syncs without cause over half an interval more.
const resyncJitter = 0.5

// Config is what a manager needs. Every field but the last is required.
type Config struct {
	Sources   Sources
	Authority Authority
	Tokens    Tokens
	Records   Records
	// EarlierRecords is the same store as Records.
	EarlierRecords EarlierRecords
	Mounts         Mounts
	// Views is the same file systems as Mounts.
	Views    Views
	Reporter Reporter
	Room     Room
	// PublishTimeout is how long a publish waits for the objects and keys that it requires.
	PublishTimeout time.Duration
	// ResyncInterval is how often every volume is synced without cause.
	ResyncInterval time.Duration
	// ShareVolumes lets equal volumes have one file system. It may be false.
	ShareVolumes bool
}

// Manager publishes and unpublishes the volumes of the node, and keeps their files current.
type Manager struct {
	cfg       Config
	calls     sync.Map         // Has the ID of each volume that is being published or unpublished.
	turns     *fairqueue.Turns // Of publishes that plan or write.
	parsing   *fairqueue.Turns // Of publishes that parse their attributes.
	registry  *registry
	queue     *syncQueue
	admission *admission
	notifier  notifier
	syncer    *syncer
	sharer    *sharer
	describer *describer
	stalls    *stallDetector
	stopping  chan struct{} // Closed when Run's context has ended.
}

// New returns a manager without volumes. Call Recover, then Run.
func New(cfg Config) *Manager {
	m := &Manager{
		cfg: cfg, turns: fairqueue.NewTurns(workers), parsing: fairqueue.NewTurns(parsers), registry: newRegistry(),
		stalls: &stallDetector{}, stopping: make(chan struct{}),
	}
	m.queue = newSyncQueue(m.stalls)
	m.admission = &admission{room: cfg.Room, queue: m.queue}
	m.notifier = notifier{reporter: cfg.Reporter}
	m.syncer = &syncer{
		sources: cfg.Sources, registry: m.registry, views: cfg.Views, reporter: cfg.Reporter, queue: m.queue, admission: m.admission, notifier: m.notifier,
	}
	m.sharer = &sharer{
		isOn: cfg.ShareVolumes, registry: m.registry, syncer: m.syncer, admission: m.admission, notifier: m.notifier,
	}
	m.describer = &describer{registry: m.registry, sources: cfg.Sources, stalls: m.stalls, key: newDigestKey()}
	return m
}

// Run syncs volumes until ctx ends. It is called once.
func (m *Manager) Run(ctx context.Context) error {
	var g errgroup.Group
	g.Go(func() error { return m.queue.run(ctx, m.syncQueued) })
	g.Go(func() error { return m.probe(ctx) })
	g.Go(func() error {
		wait.JitterUntilWithContext(ctx, m.resync, m.cfg.ResyncInterval, resyncJitter, true)
		return nil
	})
	<-ctx.Done()
	close(m.stopping)
	return g.Wait()
}

// resync queues every projection, to be compared with the files on disk.
func (m *Manager) resync(context.Context) {
	for p := range m.registry.projections() {
		p.flags.distrust()
		m.queue.add(p)
	}
}

// probe locks, at every interval, the locks that all other work needs, so that [Manager.Healthy]
// notices a deadlock. Watches need the same locks for each event: while they are free, no watch
// waits for them. The probe does not show that a watch receives events.
func (m *Manager) probe(ctx context.Context) error {
	ticker := time.NewTicker(probeInterval)
	defer ticker.Stop()
	for {
		end := m.stalls.beginProbe()
		_ = m.registry.count()
		_ = m.cfg.Sources.Look()
		m.stalls.noteQueued(m.queue.queue.Len())
		end()
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// Changed queues every projection that uses the source. It does not block.
func (m *Manager) Changed(key source.Key) {
	now := time.Now()
	m.registry.eachUser(key, func(p *projection) {
		p.flags.markChanged(now)
		p.wakePublish()
		m.queue.add(p)
	})
}

// Healthy returns nil while work goes on. Else it returns what is stuck, and a restart of the
// driver may help. An API server that is away, or a node that refuses to write, does not make the
// driver unhealthy. Healthy waits for nothing.
func (m *Manager) Healthy() error { return m.stalls.check(time.Now()) }

// Ready reports whether the volumes of an earlier run have been taken over.
func (m *Manager) Ready() bool {
	_, ended := m.registry.recovery()
	return ended
}

// Recovered returns how many volumes of an earlier run were taken over.
func (m *Manager) Recovered() int {
	count, _ := m.registry.recovery()
	return count
}

// Volumes returns how many volumes are published or being published.
func (m *Manager) Volumes() int { return m.registry.count() }

// Condition returns nil when the files of the volume are current, and else why not. For a volume
// that is not published on target it returns an *[Error] of kind Unknown; an empty target matches
// any. It does not wait long for a volume that is being worked on, and returns that as the problem.
func (m *Manager) Condition(volumeID, target string) (problem, err error) {
	return m.describer.condition(volumeID, target)
}

// Status returns the state of the volumes of the pods that match, sorted. It does not wait long for
// volumes that are being worked on.
func (m *Manager) Status(match func(api.Pod) bool) []statusz.Volume { return m.describer.status(match) }

// Summary returns the state of all volumes in numbers. It does not wait long for volumes that are
// being worked on.
func (m *Manager) Summary() Summary { return m.describer.summary() }
