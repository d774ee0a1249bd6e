package volume

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/api/identity"
	"github.com/liveconfig-csi/liveconfig/pkg/daemon/logkeys"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/source"
)

// projection is what is synced: the files of a volume, or of several volumes for which everything
// that decides about the files is equal. Those are one file system, mounted for each of them.
//
// A volume that is being published has its own projection. Its publish may find a live one with the
// same shape, and then the volume joins that. So does a volume that was found mounted, if another
// one has its file system: at any time one projection writes a file system.
type projection struct {
	id        string // Of the volume that the projection began with, which may be gone.
	namespace string // Of the pods.
	group     *int   // The fsGroup of the pods.
	spec      api.Spec
	shape     shape
	wake      chan struct{} // Holds one signal for a publish that waits for its sources.
	phase     phase
	flags     flags
	memory    memory
	node      *node

	// Serialises sync and teardown; guards the fields below, and those of memory: see held.
	mu sync.Mutex
	// Of the sources, each once. The registry's lock guards changes too, so either lock is enough
	// to read.
	keys     []source.Key
	copies   map[source.Key]*stableCopy // Of the sources that are released; guarded as keys are.
	volumes  []*volume                  // The volumes that have these files.
	giveBack []func()                   // Gives back the acquired sources.
	frozen   bool                       // The files stay as they are: they never update, or the sources cannot be used.
	files    files
	problem  error // Why the files are not current; nil when they are.
	facts    facts
}

// node is what the projections of a node share.
type node struct {
	sources  Sources
	views    Views
	reporter Reporter
	room     Room
	registry *registry
	queue    *syncQueue
	disputes *disputes // Of the stable copies.
}

// held is a projection while its lock is held. Only functions that take the lock return one, and
// all functions that need the lock are methods of it.
type held struct{ *projection }

func (p *projection) lock() held {
	p.mu.Lock()
	return held{p}
}

// lockBefore locks the projection unless the deadline comes first.
func (p *projection) lockBefore(deadline time.Time) (h held, ok bool) {
	for !p.mu.TryLock() {
		if !time.Now().Before(deadline) {
			return held{}, false
		}
		<-time.After(lockInterval)
	}
	return held{p}, true
}

func (h held) unlock() { h.mu.Unlock() }

// shape is equal for volumes that ask for the same files, read by the same identities.
type shape struct {
	files   [sha256.Size]byte // Of everything that decides about the files but their readers.
	readers [sha256.Size]byte // Of the pod's service account, and of the identities that read.
}

// newProjection returns the projection of a volume whose attributes are not parsed yet.
func (n *node) newProjection(v *volume, recordSize int) *projection {
	r := v.record
	return &projection{
		id: r.VolumeID, namespace: r.Pod.Namespace, group: r.FSGroup, node: n, volumes: []*volume{v},
		wake: make(chan struct{}, 1), copies: map[source.Key]*stableCopy{},
		memory: memory{account: n.room.Account(), recordSize: recordSize},
	}
}

// setSpec stores what a volume of the pod asks for, and the readers of its sources.
func (p *projection) setSpec(pod api.Pod, spec api.Spec, choose func(api.Pod, api.Ref) identity.Identity) {
	p.spec = spec
	for _, ref := range spec.Refs() {
		p.keys = append(p.keys, source.Key{Identity: choose(pod, ref), Ref: ref})
	}
	p.keys = append(p.keys, selectionKeys(pod, spec, choose)...)
	p.shape = shape{
		files: digestOf(struct {
			Namespace string
			Group     *int
			Spec      api.Spec
		}{pod.Namespace, p.group, spec}),
		readers: digestOf(struct {
			// A container that is root of a user namespace can make its mount writable. It must not
			// change the files of pods with other rights, even if the driver reads all sources.
			Account string
			Keys    []source.Key
		}{pod.ServiceAccount, p.keys}),
	}
}

func digestOf(value any) [sha256.Size]byte {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err) // The types are plain data.
	}
	return sha256.Sum256(text)
}

// canShare reports whether other volumes may have the same files. Programs may hold files of
// InPlace volumes open while they change, a Never volume has the content of its publish, and the
// content at publish also decides about some mount points.
func (p *projection) canShare() bool {
	if len(p.spec.MountPointsIfAbsent) > 0 {
		return false
	}
	return p.spec.UpdatePolicy == api.UpdateAtomic || p.spec.UpdatePolicy == api.UpdateReplace
}

// isLive reports whether running containers may use the files. It waits for nothing.
func (p *projection) isLive() bool { return p.phase.is(live) }

// wakePublish wakes a publish that waits for its sources. It never blocks: one pending signal is
// enough.
func (p *projection) wakePublish() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// acquire becomes a user of all these sources, or of none.
func (h held) acquire(keys []source.Key) error {
	before := h.giveBack
	for _, key := range keys {
		giveBack, err := h.node.sources.Acquire(key)
		if err != nil {
			for _, undo := range h.giveBack[len(before):] {
				undo()
			}
			h.giveBack = before
			return fmt.Errorf("watch the sources: %w", err)
		}
		h.giveBack = append(h.giveBack, giveBack)
	}
	return nil
}

// giveBackSources gives back what was acquired.
func (h held) giveBackSources() {
	for _, giveBack := range h.giveBack {
		giveBack()
	}
	h.giveBack = nil
	for _, c := range h.copies {
		c.giveBack()
	}
}

// remove takes a volume out of the projection, and reports whether it was the last one.
func (h held) remove(v *volume) (isEmpty bool) {
	h.volumes = slices.DeleteFunc(h.volumes, func(other *volume) bool { return other == v })
	return len(h.volumes) == 0
}

// end ends the use of the sources. A later sync does nothing.
func (h held) end() {
	h.phase.set(gone)
	h.giveBackSources()
	_ = h.closeCachedView() // No data waits to be written.
}

// freeze stops the updates of live volumes.
func (h held) freeze(ctx context.Context, problem error) {
	h.frozen = true
	h.setProblem(problem)
	for _, v := range h.volumes {
		klog.FromContext(ctx).Error(problem, "The driver no longer updates a live volume", logkeys.VolumeID,
			v.record.VolumeID)
		h.node.event(v, ReasonFrozen, "the files stay as they are until the pod is replaced: %v", problem)
	}
}

// freezeIfPanicking is to be deferred. A panic of one sync would come again after each restart of
// the driver, so it must not end the driver, which serves other volumes too.
func (p *projection) freezeIfPanicking(ctx context.Context) {
	if recover() == nil {
		return
	}
	klog.FromContext(ctx).Error(nil, "The driver panicked", logkeys.VolumeID, p.id, logkeys.Stack, string(debug.Stack()))
	h := p.lock()
	defer h.unlock()
	h.freeze(ctx, errPanicked)
}

// flags are what others set and read while a sync may hang.
type flags struct {
	mu         sync.Mutex // Guards the fields below; never held while waiting or calling out.
	changed    time.Time  // When the oldest change that is not synced yet became known; zero for none.
	distrusted bool       // The next sync compares the files on disk, not only the last digest.
}

// markChanged stores the earlier of two times; zero stands for no time.
func (f *flags) markChanged(t time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.changed.IsZero() || (!t.IsZero() && t.Before(f.changed)) {
		f.changed = t
	}
}

// takeChanged returns when the oldest change became known, and clears it.
func (f *flags) takeChanged() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := f.changed
	f.changed = time.Time{}
	return t
}

// oldestChange returns when the oldest change became known that is not synced yet; zero for none.
func (f *flags) oldestChange() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.changed
}

// distrust reports whether the files on disk were trusted until now.
func (f *flags) distrust() (isNew bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	isNew = !f.distrusted
	f.distrusted = true
	return isNew
}

// takeDistrust reports whether the files on disk are to be compared, and clears that.
func (f *flags) takeDistrust() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	d := f.distrusted
	f.distrusted = false
	return d
}
