package volume

import (
	"sync"

	"github.com/liveconfig-csi/liveconfig/pkg/driver/source"
)

// registry holds the volumes that are published or being published.
type registry struct {
	mu      sync.Mutex // Guards the fields below; never held while waiting or calling out.
	volumes map[string]*volume
	targets map[string]string                 // Invariant: targets[p] is id iff p is the target of volumes[id].
	users   map[source.Key]map[string]*volume // Invariant: v is in users[k] iff it is in volumes and k is in v.keys.
	// recovered is how many volumes an earlier run left, and isRecovered that all of them are here.
	recovered   int
	isRecovered bool
}

func newRegistry() *registry {
	return &registry{volumes: map[string]*volume{}, targets: map[string]string{}, users: map[source.Key]map[string]*volume{}}
}

// add makes the volume known. Call it before sources are acquired, so that no change is missed. It
// fails when the target belongs to another volume.
func (r *registry) add(v *volume) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	id, target := v.record.VolumeID, v.record.TargetPath
	if owner, ok := r.targets[target]; ok && owner != id {
		return refuse("publish", id, Different, "volume %s is already published on %s", owner, target)
	}
	r.targets[target] = id
	r.volumes[id] = v
	for _, key := range v.keys {
		if r.users[key] == nil {
			r.users[key] = map[string]*volume{}
		}
		r.users[key][id] = v
	}
	return nil
}

// remove undoes add.
func (r *registry) remove(v *volume) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.volumes, v.record.VolumeID)
	delete(r.targets, v.record.TargetPath)
	for _, key := range v.keys {
		delete(r.users[key], v.record.VolumeID)
		if len(r.users[key]) == 0 {
			delete(r.users, key)
		}
	}
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

// eachUser calls visit, which must not block, with every volume that uses the source.
func (r *registry) eachUser(key source.Key, visit func(*volume)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, v := range r.users[key] {
		visit(v)
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
