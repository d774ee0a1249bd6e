package volume

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/fair"
	"github.com/liveconfig-csi/liveconfig/pkg/logkeys"
	"github.com/liveconfig-csi/liveconfig/pkg/source"
	"github.com/liveconfig-csi/liveconfig/pkg/state"
)

// workers is how many volumes are synced at a time. A sync is mostly system calls.
const workers = 4

// parsers is how many publishes read their attributes at a time. Reading 64 KiB of YAML leaves some 10 MiB to the garbage
// collector: with four readers, 200 such publishes at once took up to 100 MiB more, with two up to 69.
const parsers = 2

// A sync that the node could not do is tried again after this long, doubling. One that there was no room for is tried again
// when there is room, and for all cases after noRoomRetry.
const (
	firstRetry  = 100 * time.Millisecond
	longestWait = 2 * time.Minute
	noRoomRetry = time.Minute
)

// resyncJitter spreads the safety net's syncs over half an interval more.
const resyncJitter = 0.5

// Config is what a manager needs. Every field is required.
type Config struct {
	Sources   Sources
	Authority Authority
	Tokens    Tokens
	Records   Records
	Mounts    Mounts
	Reporter  Reporter
	Room      Room
	// PublishTimeout is how long a publish waits for what it requires.
	PublishTimeout time.Duration
	// ResyncInterval is how often every volume is synced without cause.
	ResyncInterval time.Duration
}

// Manager is all volumes of the node.
type Manager struct {
	cfg     Config
	calls   keyLock // Held by volume ID for the length of a publish or unpublish.
	queue   workqueue.TypedRateLimitingInterface[entry]
	turns   *fair.Turns // Of publishes at what they compute and write.
	parsing *fair.Turns // Of publishes that read their attributes.
	pulse   pulse       // Says whether work goes on.
	seal    seal        // Of the digests that are shown.

	mu      sync.Mutex // Guards the fields below; never held while waiting or calling out.
	volumes map[string]*volume
	targets map[string]string                 // Invariant: targets[p] is id iff p is the target of volumes[id].
	users   map[source.Key]map[string]*volume // Invariant: v is in users[k] iff it is in volumes and k is in v.keys.
	ready   bool                              // Recover has returned.
	// recovered is how many volumes Recover has taken over.
	recovered int

	stopping chan struct{} // Closed when Run's context has ended.
}

// entry is a volume in the queue, where each namespace has a line of its own.
type entry struct{ namespace, volumeID string }

func newQueue() workqueue.TypedRateLimitingInterface[entry] {
	return fair.NewWorkQueue(func(e entry) string { return e.namespace },
		workqueue.NewTypedItemExponentialFailureRateLimiter[entry](firstRetry, longestWait))
}

// enqueue has the volume synced. It does not block.
func (m *Manager) enqueue(v *volume) { m.queue.Add(v.entry()) }

func (v *volume) entry() entry {
	return entry{namespace: v.record.Pod.Namespace, volumeID: v.record.VolumeID}
}

// New returns a manager without volumes. Call Recover, then Run.
func New(cfg Config) *Manager {
	return &Manager{
		cfg:      cfg,
		queue:    newQueue(),
		turns:    fair.NewTurns(workers),
		parsing:  fair.NewTurns(parsers),
		volumes:  map[string]*volume{},
		targets:  map[string]string{},
		users:    map[source.Key]map[string]*volume{},
		stopping: make(chan struct{}),
		seal:     newSeal(),
	}
}

// Recover takes over the volumes that an earlier run of the driver left mounted and queues each for a sync. A record
// without a mount is dropped: the node was restarted, or the driver stopped before the volume was ever visible. Where the
// node cannot tell, the volume is taken to be where it was. Records that cannot be read are reported and stay, with the
// tokens of their volumes.
func (m *Manager) Recover(ctx context.Context) error {
	unreadable := m.cfg.Records.Each(func(r state.Record) {
		done := m.pulse.works(r.VolumeID)
		err := m.recoverOne(ctx, r)
		done()
		if err != nil {
			klog.FromContext(ctx).Error(err, "A record could not be taken over", logkeys.VolumeID, r.VolumeID)
		}
	})
	if err := m.cfg.Tokens.Retain(m.cfg.Records.Has); err != nil { // What cannot be read now may be, by another version.
		klog.FromContext(ctx).Error(err, "Tokens of volumes that are gone could not be removed")
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ready = true
	m.recovered = len(m.volumes)
	return unreadable
}

func (m *Manager) recoverOne(ctx context.Context, r state.Record) error {
	mounted, err := m.cfg.Mounts.Mounted(r.TargetPath)
	switch {
	case err != nil: // If nothing is there after all, the next repeat makes it anew.
		klog.FromContext(ctx).Error(err, "A volume is taken to be mounted", logkeys.VolumeID, r.VolumeID)
	case !mounted:
		return errors.Join(m.cfg.Tokens.Drop(r.VolumeID), m.cfg.Records.Delete(r.VolumeID))
	}
	v, mistake := m.find(r)
	return m.adopt(ctx, v, mistake)
}

// find returns the volume of a record whose files are there already, and what is wrong with its attributes by now.
func (m *Manager) find(r state.Record) (v *volume, mistake error) {
	v = m.newVolume(r)
	mistake = m.parse(v)
	v.attributes = nil
	v.live.Store(true)
	return v, mistake
}

// adopt takes over a mounted volume without touching it, and queues it for a sync. One whose attributes or sources are no
// longer acceptable stays as it is, and its condition says why. It is refused when another volume is on the target.
func (m *Manager) adopt(ctx context.Context, v *volume, err error) error {
	v.frozen = err != nil || v.spec.UpdatePolicy == api.UpdateNever
	v.tidyAt = time.Now().Add(2 * graceTime) // An earlier run may have replaced files a moment ago.
	if err := m.register(v); err != nil {
		v.account.Close()
		return err
	}
	m.chargeFound(ctx, v)
	if v.spec.UpdatePolicy == api.UpdateNever {
		m.dropToken(ctx, v.record.VolumeID) // The last run may have ended before that, or stored tokens of such volumes.
	}
	if !v.frozen {
		err = m.acquire(v)
	}
	if err != nil {
		m.freeze(ctx, v, err)
		return nil
	}
	m.enqueue(v)
	return nil
}

// freeze gives up updating a live volume.
func (m *Manager) freeze(ctx context.Context, v *volume, err error) {
	klog.FromContext(ctx).Error(err, "A live volume keeps its content from now on", logkeys.VolumeID, v.record.VolumeID)
	v.mu.Lock()
	defer v.mu.Unlock()
	v.frozen = true
	v.setProblem(err)
	m.event(v, ReasonFrozen, "the files stay as they are until the pod is replaced: %v", err)
}

// Run syncs volumes until ctx ends. It is called once.
func (m *Manager) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	for range workers {
		g.Go(func() error { return m.work(ctx) })
	}
	g.Go(func() error { return m.beat(ctx) })
	g.Go(func() error {
		wait.JitterUntilWithContext(ctx, m.resync, m.cfg.ResyncInterval, resyncJitter, true)
		return nil
	})
	g.Go(func() error {
		<-ctx.Done()
		close(m.stopping)
		m.queue.ShutDown()
		return nil
	})
	return g.Wait()
}

// work takes volumes from the queue until it is shut down.
func (m *Manager) work(ctx context.Context) error {
	for {
		e, closed := m.queue.Get()
		if closed {
			return nil
		}
		done := m.pulse.took(e.volumeID)
		err := m.syncLive(ctx, e.volumeID)
		done()
		switch {
		case err != nil && isRetried(err) && isExhausted(err):
			m.queue.AddAfter(e, noRoomRetry)
		case err != nil && isRetried(err):
			m.queue.AddRateLimited(e)
		default:
			m.queue.Forget(e) // What else is wrong heals by a change of a source, which queues the volume again.
		}
		m.queue.Done(e)
	}
}

// resync queues every volume, to be compared with what is on disk.
func (m *Manager) resync(context.Context) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, v := range m.volumes {
		v.distrusted.Store(true)
		m.enqueue(v)
	}
}

// Changed queues every volume that uses the source. It does not block.
func (m *Manager) Changed(key source.Key) {
	now := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, v := range m.users[key] {
		v.dirty.mark(now)
		v.poke()
		m.enqueue(v)
	}
}

// Ready reports whether the volumes of an earlier run have been taken over.
func (m *Manager) Ready() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ready
}

// Published reports whether there is a volume on target that running containers may use: the one named, or one of which
// nothing is known, because its record was lost. Where the node cannot tell what is mounted, a known volume is taken to be
// where it was.
func (m *Manager) Published(volumeID, target string) bool {
	v := m.lookup(volumeID)
	if m.isOthers(target, volumeID) || v != nil && (v.record.TargetPath != target || !v.isLive()) {
		return false
	}
	if v != nil && v.isSeen() {
		return true
	}
	mounted, err := m.cfg.Mounts.Mounted(target)
	return mounted || v != nil && err != nil
}

// Volumes returns how many volumes are published or being published.
func (m *Manager) Volumes() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.volumes)
}

// Condition returns nil when the files of the volume are what its sources say, and else why not. For a volume that is
// not published on target it returns an *[Error] of kind Unknown; an empty target stands for wherever it is. It does not wait
// for a volume that is being worked on for long, and says so instead.
func (m *Manager) Condition(volumeID, target string) (problem, err error) {
	v := m.lookup(volumeID)
	switch {
	case v == nil:
		return nil, refuse("describe", volumeID, Unknown, "volume %s is not published on this node", volumeID)
	case target != "" && target != v.record.TargetPath:
		return nil, refuse("describe", volumeID, Unknown, "volume %s is not published on %s", volumeID, target)
	}
	locked := v.tryLock(time.Now().Add(patience))
	if locked {
		defer v.mu.Unlock()
	}
	switch {
	case !v.isLive():
		return nil, refuse("describe", volumeID, Unknown, "volume %s is not published on this node", volumeID)
	case !locked:
		return errWorkedOn, nil
	case v.problem != nil:
		return v.problem, nil
	}
	return m.staleness(v), nil
}

// staleness returns why what is known of a source may be out of date. v.mu is held.
func (m *Manager) staleness(v *volume) error {
	if v.frozen {
		return nil
	}
	for _, key := range v.keys {
		if s := m.cfg.Sources.Get(key); s.Err != nil {
			return &unreadError{key: key, err: s.Err}
		}
	}
	return nil
}

func (m *Manager) lookup(volumeID string) *volume {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.volumes[volumeID]
}

// newVolume returns a volume of which nothing is known but what was asked for. Its account has to be closed.
func (m *Manager) newVolume(r state.Record) *volume {
	v := &volume{
		asked: r.Fingerprint(), attributes: r.Attributes, text: r.Size(),
		account: m.cfg.Room.Account(), wake: make(chan struct{}, 1),
	}
	r.Attributes = nil
	v.record = r
	return v
}

// parse checks all of a volume's record that can be checked without reading a source.
func (m *Manager) parse(v *volume) error {
	spec, err := api.Parse(v.attributes, v.record.Pod.Namespace)
	if err != nil {
		return err
	}
	v.spec = spec
	for _, ref := range spec.Refs() {
		v.keys = append(v.keys, source.Key{Identity: m.cfg.Authority.Choose(v.record.Pod, ref), Ref: ref})
	}
	return nil
}
