// Package volume is the life of volumes: publish, update, unpublish, and what a restarted driver does with those it
// finds. It is the only place that orders side effects.
//
// It does not know gRPC, CSI messages, how objects are read, or how a tmpfs is made.
package volume

import (
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/budget"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/identity"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/source"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/state"
	"github.com/liveconfig-csi/liveconfig/pkg/files/atomicdir"
	"github.com/liveconfig-csi/liveconfig/pkg/files/volumefs"
)

// Sources gives live contents of objects.
type Sources interface {
	// Acquire counts a user of the object; release takes it back.
	Acquire(source.Key) (release func(), err error)
	// Get never blocks.
	Get(source.Key) source.Snapshot
}

// Authority says whose credentials read a source for a pod.
type Authority interface {
	Choose(api.Pod, api.Ref) identity.Identity
}

// Tokens holds what pods' credentials need, as long as their volumes.
type Tokens interface {
	// Keep holds the token that a volume came with. No token changes nothing.
	Keep(volumeID string, pod api.Pod, t identity.Token) error
	Drop(volumeID string) error
	// Retain drops those of volumes that are not known.
	Retain(known func(volumeID string) bool) error
}

// Records remembers published volumes over restarts.
type Records interface {
	Put(state.Record) error
	// Ensure is Put for a volume that should have a record already, and costs little when it has.
	Ensure(state.Record) error
	// Adopt is Put for a volume that was found live, and leaves the record that a newer driver may have of it.
	Adopt(state.Record) error
	// Has tells whether a volume has a record, readable or not.
	Has(volumeID string) bool
	Delete(volumeID string) error
	// Each calls visit with every readable record, and returns an error for those that are not. visit may delete the record.
	Each(visit func(state.Record)) error
}

// Mounts makes and finds the volumes' file systems.
type Mounts interface {
	// Create makes one that nobody sees until the view is published.
	Create(volumefs.Limits) (*volumefs.View, error)
	Open(target string) (*volumefs.View, error)
	Mounted(target string) (bool, error)
	// Usage tells how full the volume on target is.
	Usage(target string) (volumefs.Usage, error)
	Unmount(target string) error
}

// Reporter tells people outside the driver what happens to volumes. Its methods must not block.
type Reporter interface {
	// Event shows on the pod. volume is its name in the pod spec.
	Event(pod api.Pod, volume string, reason Reason, note string)
	// Synced counts one finished sync. since is when the change that caused it became known; zero for none.
	Synced(result Result, since time.Time)
	// Reached tells that a change that was made at that time, by the API server's clock, is now in the files of a volume.
	Reached(changed time.Time)
}

// Reason is why an Event was written: a short CamelCase word that people filter by.
type Reason string

// The reasons of Events.
const (
	// ReasonWaiting: a required object or key does not exist yet, or cannot be read yet; publish waits for it.
	ReasonWaiting Reason = "WaitingForSource"
	// ReasonProjected: a change reached the files.
	ReasonProjected Reason = "Projected"
	// ReasonSourceMissing: a required object or key of a live volume is gone.
	ReasonSourceMissing Reason = "SourceMissing"
	// ReasonAccessLost: a source of a live volume may no longer be read.
	ReasonAccessLost Reason = "AccessLost"
	// ReasonPolling: a source is read now and then, because its reader may not watch it.
	ReasonPolling Reason = "Polling"
	// ReasonFrozen: a live volume is not updated any more, because what an earlier version of the driver accepted is refused
	// by this one.
	ReasonFrozen Reason = "Frozen"
	// ReasonNoRoom: the node has no memory left for a change.
	ReasonNoRoom Reason = "NoRoom"
	// ReasonFailed: a change could not be projected for another cause.
	ReasonFailed Reason = "ProjectionFailed"
)

// Warns reports whether the reason is something to worry about.
func (r Reason) Warns() bool { return r != ReasonProjected }

// Result is how a sync ended.
type Result string

// The results of a sync.
const (
	ResultWritten   Result = "written"
	ResultUnchanged Result = "unchanged"
	ResultFailed    Result = "failed"
)

// volume is one volume that is being published or live.
type volume struct {
	record     state.Record      // Without attributes.
	attributes map[string]string // Nil once the volume is live: what they say is in spec. Its publish's own.
	asked      state.Fingerprint // Of the record with them.
	text       int               // How many bytes the record has, about.
	spec       api.Spec
	keys       []source.Key    // Of the sources, each once; fixed once registered.
	wake       chan struct{}   // Holds one poke for a publish that waits.
	account    *budget.Account // What is taken of the room.
	dirty      dirtyTime
	// live and gone are set while mu is held, and read without it where nobody may wait for a system call that hangs.
	live atomic.Bool // Mounted by us, as far as we know; a failure must not touch it.
	gone atomic.Bool // Torn down: a sync that comes late does nothing.
	// distrusted makes the next sync compare the files on disk, and not only what was last written there.
	distrusted atomic.Bool

	mu       sync.Mutex     // Serialises sync and teardown; guards the fields below.
	release  []func()       // Takes back what was acquired.
	view     *volumefs.View // The way into the files of a live volume, kept from change to change; nil for none yet.
	frozen   bool           // Stays as it is: it never updates, or its sources cannot be had.
	digest   string         // Of the tree that was last written or found equal; empty after a restart or a failed write.
	tidyAt   time.Time      // When replaced files may go; zero when there are none.
	crowded  time.Time      // Since when there is no room for a change; zero for there is.
	borrowed int64          // The room that is taken for what was rendered and is not in the files yet.
	told     string         // The gist of what the pod was last told is wrong; empty for nothing.
	problem  error          // Why the files are not what they should be; nil when they are.
	polled   []source.Key   // Of which the pod was told that they are read now and then.
	facts    facts          // What is told of the volume to who asks.
	// projected are the objects whose content is in the files; nil while that is not known, after a restart.
	projected map[api.Ref]projected
}

// dirtyTime holds when the oldest change not yet synced became known.
type dirtyTime struct {
	mu    sync.Mutex // Guards since.
	since time.Time
}

// mark keeps the earlier of two times; zero is none.
func (d *dirtyTime) mark(t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.since.IsZero() || (!t.IsZero() && t.Before(d.since)) {
		d.since = t
	}
}

// take returns the time and forgets it.
func (d *dirtyTime) take() time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	t := d.since
	d.since = time.Time{}
	return t
}

// poke wakes a publish that waits for its sources. It never blocks: one pending poke is as good as many.
func (v *volume) poke() {
	select {
	case v.wake <- struct{}{}:
	default:
	}
}

// name returns the volume's name in the pod spec, which the kubelet puts before the last element of the target path.
func (v *volume) name() string { return filepath.Base(filepath.Dir(v.record.TargetPath)) }

// isLive reports whether running containers may use the volume. It waits for nothing.
func (v *volume) isLive() bool { return v.live.Load() && !v.gone.Load() }

// dropView gives up the way into the files. v.mu is held.
func (v *volume) dropView() error {
	view := v.view
	v.view = nil
	if view == nil {
		return nil
	}
	return view.Close()
}

// dropSources takes back what was acquired. v.mu is held.
func (v *volume) dropSources() {
	for _, release := range v.release {
		release()
	}
	v.release = nil
}

// Grace of replaced files: as long as readers may take to walk a path, with all that keeps them waiting, and as much memory
// as they are worth when changes come one upon the other.
const (
	graceTime  = 250 * time.Millisecond
	graceBytes = 1 << 20
)

// writing is how one write goes about it.
type writing struct {
	room    func() error // Asks for room.
	differs bool         // The live files are known to be others.
}

func (w writing) atomic() atomicdir.Writer {
	return atomicdir.Atomic{Room: w.room, Differs: w.differs, Grace: atomicdir.Grace{Time: graceTime, Bytes: graceBytes}}
}

// by returns what writes by a policy. A volume that never updates is written once, in the default layout.
func (w writing) by(policy api.UpdatePolicy) atomicdir.Writer {
	switch policy {
	case api.UpdateReplace:
		return atomicdir.Replace{Room: w.room}
	case api.UpdateInPlace:
		return atomicdir.InPlace{Room: w.room}
	case api.UpdateAtomic, api.UpdateNever:
		return w.atomic()
	}
	return w.atomic()
}
