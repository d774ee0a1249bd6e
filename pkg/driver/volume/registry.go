package volume

import (
	"maps"
	"slices"
	"sync"

	"github.com/liveconfig-csi/liveconfig/pkg/driver/source"
	"github.com/liveconfig-csi/liveconfig/pkg/files/volumefs"
)

// registry holds the volumes that are published or being published, and their projections.
type registry struct {
	mu      sync.Mutex // Guards the fields below; never held while waiting or calling out.
	volumes map[string]*volume
	targets map[string]string                       // Invariant: targets[t] is id iff t is the target of volumes[id].
	users   map[source.Key]map[*projection]struct{} // Invariant: p is in users[k] iff a volume has it and k is in p.keys.
	shared  map[shape]*projection                   // The projection that new volumes of a shape may join.
	writers map[volumefs.FileSystem]*projection     // The only projection that writes a file system.
	// recovered is how many volumes an earlier run left, and isRecovered that all of them are here.
	recovered   int
	isRecovered bool
}

func newRegistry() *registry {
	return &registry{
		volumes: map[string]*volume{}, targets: map[string]string{},
		users: map[source.Key]map[*projection]struct{}{}, shared: map[shape]*projection{},
		writers: map[volumefs.FileSystem]*projection{},
	}
}

// add makes the volume and its projection known. Call it before sources are acquired, so that no
// change is missed. It fails when the target belongs to another volume.
func (r *registry) add(v *volume) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	id, target := v.record.VolumeID, v.record.TargetPath
	if owner, ok := r.targets[target]; ok && owner != id {
		return call{"publish", id}.refuse(Different, "volume %s is already published on %s", owner, target)
	}
	r.targets[target] = id
	r.volumes[id] = v
	r.useLocked(v.projection())
	return nil
}

func (r *registry) useLocked(p *projection) {
	for _, key := range p.keys {
		r.useKeyLocked(p, key)
	}
}

func (r *registry) useKeyLocked(p *projection, key source.Key) {
	if r.users[key] == nil {
		r.users[key] = map[*projection]struct{}{}
	}
	r.users[key][p] = struct{}{}
}

func (r *registry) endUseLocked(p *projection, key source.Key) {
	delete(r.users[key], p)
	if len(r.users[key]) == 0 {
		delete(r.users, key)
	}
}

// addCopy makes the stable copy of a source known as one more object that a projection uses.
func (r *registry) addCopy(h held, key source.Key, c *stableCopy) {
	r.mu.Lock()
	defer r.mu.Unlock()
	h.copies[key] = c
	r.useKeyLocked(h.projection, c.key)
}

// removeCopy undoes addCopy, unless the volume has the copy as a source too.
func (r *registry) removeCopy(h held, key source.Key, c *stableCopy) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(h.copies, key)
	if !slices.Contains(h.keys, c.key) {
		r.endUseLocked(h.projection, c.key)
	}
}

// remove undoes add for a volume.
func (r *registry) remove(v *volume) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.volumes, v.record.VolumeID)
	delete(r.targets, v.record.TargetPath)
}

// removeProjection undoes add for a projection that no volume has any more.
func (r *registry) removeProjection(p *projection) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, key := range p.keys {
		r.endUseLocked(p, key)
	}
	for _, c := range p.copies {
		r.endUseLocked(p, c.key)
	}
	if r.shared[p.shape] == p {
		delete(r.shared, p.shape)
	}
	maps.DeleteFunc(r.writers, func(_ volumefs.FileSystem, writer *projection) bool { return writer == p })
}

// setWriter stores which projection writes a file system that was just created.
func (r *registry) setWriter(fs volumefs.FileSystem, p *projection) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.writers[fs] = p
}

// claim returns the projection that writes a file system. The first one to ask is that projection
// from now on, until it is gone.
func (r *registry) claim(fs volumefs.FileSystem, p *projection) (writer *projection) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if other := r.writers[fs]; other != nil && !other.phase.is(gone) {
		return other
	}
	r.writers[fs] = p
	return p
}

// offer returns the projection that volumes of the shape of p may join. The first one to ask is
// that projection from now on.
func (r *registry) offer(p *projection) *projection {
	r.mu.Lock()
	defer r.mu.Unlock()
	if other := r.shared[p.shape]; other != nil {
		return other
	}
	r.shared[p.shape] = p
	return p
}

// supersede makes p the projection that new volumes of its shape may join.
func (r *registry) supersede(p *projection) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.shared[p.shape] = p
}

// addReaders adds sources to a projection, so that it has those of another one too.
func (r *registry) addReaders(h held, keys []source.Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	h.keys = append(h.keys, keys...)
	r.useLocked(h.projection)
}

// keysOf returns the sources of a projection.
func (r *registry) keysOf(p *projection) []source.Key {
	r.mu.Lock()
	defer r.mu.Unlock()
	return p.keys
}

// get returns a volume, or nil if it is not known.
func (r *registry) get(volumeID string) *volume {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.volumes[volumeID]
}

// isTargetOfAnother reports whether the target belongs to another volume than the one named.
func (r *registry) isTargetOfAnother(target, volumeID string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	owner, ok := r.targets[target]
	return ok && owner != volumeID
}

func (r *registry) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.volumes)
}

func (r *registry) all() []*volume {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]*volume, 0, len(r.volumes))
	for _, v := range r.volumes {
		all = append(all, v)
	}
	return all
}

// projections returns every projection once.
func (r *registry) projections() map[*projection]struct{} {
	all := map[*projection]struct{}{}
	for _, v := range r.all() {
		all[v.projection()] = struct{}{}
	}
	return all
}

// eachUser calls visit, which must not block, with every projection that uses the source.
func (r *registry) eachUser(key source.Key, visit func(*projection)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for p := range r.users[key] {
		visit(p)
	}
}

// endRecovery notes that all volumes of an earlier run are here.
func (r *registry) endRecovery() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.recovered, r.isRecovered = len(r.volumes), true
}

// recovery returns how many volumes of an earlier run are here, and whether that is all of them.
func (r *registry) recovery() (count int, ended bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.recovered, r.isRecovered
}
