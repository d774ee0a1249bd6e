package volume

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/liveconfig-csi/liveconfig/pkg/daemon/fairqueue"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/source"
)

// parsers is how many publishes parse their attributes at a time. Parsing 64 KiB of YAML leaves
// some 10 MiB to the garbage collector: with four parsers, 200 such publishes at once took up to
// 100 MiB more, with two up to 69.
const parsers = 2

// resyncJitter spreads the syncs without cause over half an interval more.
const resyncJitter = 0.5

// Config is what a manager needs. Every field but the last two is required.
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
	// Node is the name of this node, which pods can have in their files.
	Node string
	// ShareVolumes lets equal volumes have one file system. It may be false.
	ShareVolumes bool
}

// Manager publishes and unpublishes the volumes of the node, and keeps their files current.
type Manager struct {
	*node

	cfg      Config
	calls    sync.Map             // Has the ID of each volume that is being published or unpublished.
	working  *fairqueue.Semaphore // Of publishes that plan or write.
	parsing  *fairqueue.Semaphore // Of publishes that parse their attributes.
	stalls   *stallDetector
	digests  digestKey
	stopping chan struct{} // Closed when Run's context has ended.
}

// New returns a manager without volumes. Call Recover, then Run.
func New(cfg Config) *Manager {
	stalls := &stallDetector{}
	return &Manager{
		node: &node{
			sources: cfg.Sources, views: cfg.Views, reporter: cfg.Reporter, room: cfg.Room,
			registry: newRegistry(), queue: newSyncQueue(stalls), disputes: &disputes{since: map[string]time.Time{}},
		},
		cfg: cfg, working: fairqueue.NewSemaphore(workers), parsing: fairqueue.NewSemaphore(parsers),
		stalls: stalls, digests: newDigestKey(), stopping: make(chan struct{}),
	}
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
