package volume

import (
	"crypto/sha256"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/access"
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

	mu      sync.Mutex                 // Serialises sync and teardown; guards the fields below, and those of memory.
	keys    []source.Key               // Of the sources, each once. The registry's lock guards changes too, so either lock is enough to read.
	copies  map[source.Key]*stableCopy // Of the sources that are released; guarded as keys are.
	volumes []*volume                  // The volumes that have these files.
	release []func()                   // Gives back the acquired sources.
	frozen  bool                       // The files stay as they are: they never update, or the sources cannot be used.
	files   files
	problem error // Why the files are not current; nil when they are.
	facts   facts
}

// shape is equal for volumes that ask for the same files, read by the same identities.
type shape struct {
	files   [sha256.Size]byte // Of everything that decides about the files but their readers.
	readers [sha256.Size]byte // Of the pod's service account, and of the identities that read.
}

// newProjection returns the projection of a volume whose attributes are not parsed yet.
func newProjection(v *volume, m memory) *projection {
	r := v.record
	return &projection{
		id: r.VolumeID, namespace: r.Pod.Namespace, group: r.FSGroup, memory: m, volumes: []*volume{v}, wake: make(chan struct{}, 1),
		copies: map[source.Key]*stableCopy{},
	}
}

// setSpec stores what a volume of the pod asks for, and the readers of its sources.
func (p *projection) setSpec(pod api.Pod, spec api.Spec, choose func(api.Pod, api.Ref) access.Identity) {
	p.spec = spec
	for _, ref := range spec.Refs() {
		p.keys = append(p.keys, source.Key{Identity: choose(pod, ref), Ref: ref})
	}
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
// InPlace volumes open while they change, and a Never volume has the content of its publish.
func (p *projection) canShare() bool {
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

// releaseSourcesLocked gives back what was acquired.
func (p *projection) releaseSourcesLocked() {
	for _, release := range p.release {
		release()
	}
	p.release = nil
	for _, c := range p.copies {
		c.release()
	}
}

// removeLocked takes a volume out of the projection, and reports whether it was the last one.
func (p *projection) removeLocked(v *volume) (isEmpty bool) {
	p.volumes = slices.DeleteFunc(p.volumes, func(other *volume) bool { return other == v })
	return len(p.volumes) == 0
}

// lockBefore locks the projection unless the deadline comes first.
func (p *projection) lockBefore(deadline time.Time) (locked bool) {
	for !p.mu.TryLock() {
		if !time.Now().Before(deadline) {
			return false
		}
		<-time.After(lockInterval)
	}
	return true
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
