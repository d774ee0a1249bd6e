// Package volume is the life of volumes: publish, update, unpublish, and recovery after a restart
// of the driver. It is the only package that orders side effects.
//
// A volume is a record and a mount. Its files are those of a [projection]: volumes that are equal
// share one. The [Manager] publishes and unpublishes volumes. A projection syncs itself, in one way
// for publish, update, republish and restart: a [look] at the sources, the plan of the files, the
// room for them, the write, the Events.
//
// The registry knows all volumes, the syncQueue knows which projections wait for a sync, and the
// stallDetector knows whether work goes on.
//
// A projection has two locks. Its mu is held for the length of a sync, whose system calls may hang:
// see [held]. Its flags have a separate lock, so that no call and no watch waits for a sync.
//
// The package does not know gRPC, CSI messages, how objects are read, or how a tmpfs is created.
package volume

import (
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/driver/budget"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/state"
	"github.com/liveconfig-csi/liveconfig/pkg/files/volumefs"
)

// volume is one volume that is being published or live.
type volume struct {
	record state.Record // Without attributes.
	// Nil once the volume is live: its projection holds their meaning. Only its publish uses them.
	attributes map[string]string
	asked      state.Fingerprint // Of the record with the attributes.
	phase      phase
	of         atomic.Pointer[projection] // Changes once, when the volume joins another projection.
	account    *budget.Account            // Of what the volume itself takes once it has joined; else nil.

	// The mu of the projection guards the fields below.
	mount  volumefs.Mount // Zero if it is not known.
	lost   error          // Why the mount is not where it was published; nil if it is.
	events reported
}

// phase is how far the life of a volume or projection has come. It can be read without a lock.
type phase struct{ value atomic.Int32 }

const (
	publishing int32 = iota
	found            // Of a projection: mounted by an earlier run, and another one may write the files.
	live             // Mounted by the driver. A failed sync does not end this phase.
	gone             // Torn down: a late sync does nothing.
)

func (p *phase) is(value int32) bool { return p.value.Load() == value }

func (p *phase) set(value int32) { p.value.Store(value) }

// newVolume returns the volume that a record asks for, before its attributes are parsed. It takes
// no memory yet. The account of its projection must be closed.
func (n *node) newVolume(r state.Record) *volume {
	v := &volume{asked: r.Fingerprint(), attributes: r.Attributes}
	size := r.Size()
	r.Attributes = nil
	v.record = r
	v.of.Store(n.newProjection(v, size))
	return v
}

// projection returns what holds the files of the volume.
func (v *volume) projection() *projection { return v.of.Load() }

// lock locks the projection of the volume, and returns it.
func (v *volume) lock() held {
	for {
		h := v.projection().lock()
		if v.projection() == h.projection {
			return h
		}
		h.unlock() // The volume has joined another meanwhile.
	}
}

// lockBefore locks the projection of the volume, and returns it, unless the deadline comes first.
func (v *volume) lockBefore(deadline time.Time) (h held, ok bool) {
	for {
		h, ok = v.projection().lockBefore(deadline)
		if !ok || v.projection() == h.projection {
			return h, ok
		}
		h.unlock()
	}
}

// isLive reports whether running containers may use the volume. It waits for nothing.
func (v *volume) isLive() bool { return v.phase.is(live) }

// problemOf returns why the files that one of the volumes shows are not current; nil when they are.
func (h held) problemOf(v *volume) error {
	if h.problem != nil {
		return h.problem
	}
	return v.lost
}

// name returns the volume's name in the pod spec, which the kubelet puts before the last element of
// the target path.
func (v *volume) name() string { return filepath.Base(filepath.Dir(v.record.TargetPath)) }
