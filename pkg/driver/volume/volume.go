// Package volume is the life of volumes: publish, update, unpublish, and recovery after a restart
// of the driver. It is the only package that orders side effects.
//
// The [Manager] publishes and unpublishes volumes. Its parts have one duty and at most one lock
// each:
//
//   - registry: which volumes there are, and who uses which source
//   - syncQueue: which volumes wait for a sync, and when a failed sync is tried again
//   - planner: what the files of a volume must be, by what is known of its sources
//   - syncer: makes the files of a volume equal to its plan
//   - admission: how much of the node's memory each volume takes
//   - notifier: the Events of a volume
//   - describer: status, summary and condition of volumes
//   - stallDetector: whether work goes on
//
// A volume has two locks. Its mu is held for the length of a sync, whose system calls may hang. Its
// flags have a lock of their own, so that no call and no watch waits for a sync.
//
// The package does not know gRPC, CSI messages, how objects are read, or how a tmpfs is created.
package volume

import (
	"path/filepath"
	"sync"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/source"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/state"
)

// volume is one volume that is being published or live.
type volume struct {
	record     state.Record      // Without attributes.
	attributes map[string]string // Nil once the volume is live: spec holds their meaning. Only its publish uses them.
	asked      state.Fingerprint // Of the record with the attributes.
	spec       api.Spec
	keys       []source.Key  // Of the sources, each once; fixed once registered.
	wake       chan struct{} // Holds one signal for a publish that waits for its sources.
	flags      flags
	memory     memory

	mu      sync.Mutex // Serialises sync and teardown; guards the fields below, and those of memory.
	release []func()   // Gives back the acquired sources.
	frozen  bool       // The volume stays as it is: it never updates, or its sources cannot be used.
	files   files
	problem error // Why the files are not current; nil when they are.
	events  reported
	facts   facts
}

// phase is how far the life of a volume has come.
type phase int

const (
	phasePublishing phase = iota
	phaseLive             // Mounted by the driver. A failed sync does not end this phase.
	phaseGone             // Torn down: a late sync does nothing.
)

// flags are what others set and read while a sync may hang. The phase changes only under the
// volume's mu.
type flags struct {
	mu         sync.Mutex // Guards the fields below; never held while waiting or calling out.
	phase      phase
	changed    time.Time // When the oldest change that is not synced yet became known; zero for none.
	distrusted bool      // The next sync compares the files on disk, not only the last digest.
}

func (f *flags) is(p phase) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.phase == p
}

func (f *flags) setPhase(p phase) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.phase = p
}

// markChanged stores the earlier of two times; zero is none.
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

func (f *flags) distrust() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.distrusted = true
}

// takeDistrust reports whether the files on disk are to be compared, and clears that.
func (f *flags) takeDistrust() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	d := f.distrusted
	f.distrusted = false
	return d
}

// newVolume returns the volume that a record asks for, before its attributes are parsed.
func newVolume(r state.Record, m memory) *volume {
	v := &volume{asked: r.Fingerprint(), attributes: r.Attributes, memory: m, wake: make(chan struct{}, 1)}
	r.Attributes = nil
	v.record = r
	return v
}

// isLive reports whether running containers may use the volume. It waits for nothing.
func (v *volume) isLive() bool { return v.flags.is(phaseLive) }

// name returns the volume's name in the pod spec, which the kubelet puts before the last element of
// the target path.
func (v *volume) name() string { return filepath.Base(filepath.Dir(v.record.TargetPath)) }

// wakePublish wakes a publish that waits for its sources. It never blocks: one pending signal is
// enough.
func (v *volume) wakePublish() {
	select {
	case v.wake <- struct{}{}:
	default:
	}
}

// releaseSourcesLocked gives back what was acquired.
func (v *volume) releaseSourcesLocked() {
	for _, release := range v.release {
		release()
	}
	v.release = nil
}

// lockBefore locks the volume unless the deadline comes first.
func (v *volume) lockBefore(deadline time.Time) (locked bool) {
	for !v.mu.TryLock() {
		if !time.Now().Before(deadline) {
			return false
		}
		<-time.After(lockInterval)
	}
	return true
}
