package volume

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/logkeys"
	"github.com/liveconfig-csi/liveconfig/pkg/source"
	"github.com/liveconfig-csi/liveconfig/pkg/state"
)

// workers is how many volumes are synced at a time. A sync is mostly system calls.
const workers = 4

// A sync that the node could not do is tried again after this long, doubling.
const (
	firstRetry  = 100 * time.Millisecond
	longestWait = 2 * time.Minute
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
	// PublishTimeout is how long a publish waits for what it requires.
	PublishTimeout time.Duration
	// ResyncInterval is how often every volume is synced without cause.
	ResyncInterval time.Duration
}

// Manager is all volumes of the node.
type Manager struct {
	cfg   Config
	calls keyLock // Held by volume ID for the length of a publish or unpublish.
	queue workqueue.TypedRateLimitingInterface[string]

	mu      sync.Mutex // Guards the fields below; never held while waiting or calling out.
	volumes map[string]*volume
	targets map[string]string                 // Invariant: targets[p] is id iff p is the target of volumes[id].
	users   map[source.Key]map[string]*volume // Invariant: v is in users[k] iff it is in volumes and k is in v.keys.
	ready   bool                              // Recover has returned.

	stopping chan struct{} // Closed when Run's context has ended.
}

// New returns a manager without volumes. Call Recover, then Run.
func New(cfg Config) *Manager {
	return &Manager{
		cfg: cfg,
		queue: workqueue.NewTypedRateLimitingQueue(
			workqueue.NewTypedItemExponentialFailureRateLimiter[string](firstRetry, longestWait)),
		volumes:  map[string]*volume{},
		targets:  map[string]string{},
		users:    map[source.Key]map[string]*volume{},
		stopping: make(chan struct{}),
	}
}

// Recover takes over the volumes that an earlier run of the driver left mounted and queues each for a sync. A record
// without a mount is dropped: the node was restarted, or the driver stopped before the volume was ever visible. Records
// that cannot be read are reported and stay.
func (m *Manager) Recover(ctx context.Context) error {
	records, unreadable := m.cfg.Records.List()
	for _, r := range records {
		if err := m.recoverOne(ctx, r); err != nil {
			klog.FromContext(ctx).Error(err, "A record could not be taken over", logkeys.VolumeID, r.VolumeID)
		}
	}
	if err := m.cfg.Tokens.Retain(func(id string) bool { return m.lookup(id) != nil }); err != nil {
		klog.FromContext(ctx).Error(err, "Tokens of volumes that are gone could not be removed")
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ready = true
	return unreadable
}

func (m *Manager) recoverOne(ctx context.Context, r state.Record) error {
	mounted, err := m.cfg.Mounts.Mounted(r.TargetPath)
	if err != nil {
		return err
	}
	if !mounted {
		return errors.Join(m.cfg.Tokens.Drop(r.VolumeID), m.cfg.Records.Delete(r.VolumeID))
	}
	return m.adopt(ctx, r)
}

// adopt takes over a mounted volume without touching it, and queues it for a sync. One whose attributes or sources are no
// longer acceptable stays as it is, and its condition says why. It is refused when another volume is on the target.
func (m *Manager) adopt(ctx context.Context, r state.Record) error {
	v, err := m.prepare(r)
	if err != nil {
		v = &volume{record: r}
	}
	v.live = true
	v.frozen = err != nil || v.spec.UpdatePolicy == api.UpdateNever
	v.tidyAt = time.Now().Add(2 * graceTime) // An earlier run may have replaced files a moment ago.
	if err := m.register(v); err != nil {
		return err
	}
	if !v.frozen {
		err = m.acquire(v)
	}
	if err != nil {
		m.freeze(ctx, v, err)
		return nil
	}
	m.queue.Add(r.VolumeID)
	return nil
}

// freeze gives up updating a live volume.
func (m *Manager) freeze(ctx context.Context, v *volume, err error) {
	klog.FromContext(ctx).Error(err, "A live volume keeps its content from now on", logkeys.VolumeID, v.record.VolumeID)
	v.mu.Lock()
	defer v.mu.Unlock()
	v.frozen, v.problem = true, err
}

// Run syncs volumes until ctx ends. It is called once.
func (m *Manager) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	for range workers {
		g.Go(func() error { return m.work(ctx) })
	}
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
		id, closed := m.queue.Get()
		if closed {
			return nil
		}
		if err := m.syncLive(ctx, id); err != nil && kindOf(err) == IO {
			m.queue.AddRateLimited(id)
		} else {
			m.queue.Forget(id) // What else is wrong heals by a change of a source, which queues the volume again.
		}
		m.queue.Done(id)
	}
}

// resync queues every volume, to be compared with what is on disk.
func (m *Manager) resync(context.Context) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, v := range m.volumes {
		v.distrusted.Store(true)
		m.queue.Add(id)
	}
}

// Changed queues every volume that uses the source. It does not block.
func (m *Manager) Changed(key source.Key) {
	now := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, v := range m.users[key] {
		v.dirty.mark(now)
		v.poke()
		m.queue.Add(id)
	}
}

// Ready reports whether the volumes of an earlier run have been taken over.
func (m *Manager) Ready() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ready
}

// Volumes returns how many volumes are published or being published.
func (m *Manager) Volumes() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.volumes)
}

// Condition returns nil when the files of the volume are what its sources say, and else why not. For a volume that is
// not published on target it returns an *[Error] of kind Unknown; an empty target stands for wherever it is.
func (m *Manager) Condition(volumeID, target string) (problem, err error) {
	v := m.lookup(volumeID)
	switch {
	case v == nil:
		return nil, refuse("describe", volumeID, Unknown, "volume %s is not published on this node", volumeID)
	case target != "" && target != v.record.TargetPath:
		return nil, refuse("describe", volumeID, Unknown, "volume %s is not published on %s", volumeID, target)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case !v.live || v.gone:
		return nil, refuse("describe", volumeID, Unknown, "volume %s is not published on this node", volumeID)
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

// prepare checks all of a record that can be checked without reading a source.
func (m *Manager) prepare(r state.Record) (*volume, error) {
	spec, err := api.Parse(r.Attributes, r.Pod.Namespace)
	if err != nil {
		return nil, err
	}
	v := &volume{record: r, spec: spec, wake: make(chan struct{}, 1)}
	for _, ref := range spec.Refs() {
		id, err := m.cfg.Authority.Choose(r.Pod, ref)
		if err != nil {
			return nil, err
		}
		v.keys = append(v.keys, source.Key{Identity: id, Ref: ref})
	}
	return v, nil
}

// register makes the volume known, so that no change of a source it acquires afterwards is missed. It is refused when
// the target is another volume's.
func (m *Manager) register(v *volume) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	id, target := v.record.VolumeID, v.record.TargetPath
	if holder, ok := m.targets[target]; ok && holder != id {
		return refuse("publish", id, Different, "volume %s is already published on %s", holder, target)
	}
	m.targets[target] = id
	m.volumes[id] = v
	for _, key := range v.keys {
		if m.users[key] == nil {
			m.users[key] = map[string]*volume{}
		}
		m.users[key][id] = v
	}
	return nil
}

// isOthers reports whether the target is that of another volume than the one named.
func (m *Manager) isOthers(target, volumeID string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	holder, ok := m.targets[target]
	return ok && holder != volumeID
}

// acquire becomes a user of every source of the volume.
func (m *Manager) acquire(v *volume) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, key := range v.keys {
		release, err := m.cfg.Sources.Acquire(key)
		if err != nil {
			v.dropSources()
			return fmt.Errorf("watch the sources: %w", err)
		}
		v.release = append(v.release, release)
	}
	return nil
}

// forget undoes register and acquire. A sync that is under way ends first; one that comes later does nothing.
func (m *Manager) forget(v *volume) {
	v.mu.Lock()
	v.gone = true
	v.dropSources()
	v.mu.Unlock()

	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.volumes, v.record.VolumeID)
	delete(m.targets, v.record.TargetPath)
	for _, key := range v.keys {
		delete(m.users[key], v.record.VolumeID)
		if len(m.users[key]) == 0 {
			delete(m.users, key)
		}
	}
}
