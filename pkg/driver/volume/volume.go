// Package volume is the life of volumes: publish, update, unpublish, and recovery after a restart
// of the driver. It is the only package that orders side effects.
//
// A volume is a record and a mount. Its files are those of a [projection]: volumes that are equal
// share one. The [Manager] publishes and unpublishes volumes. Its parts have one duty and at most
// one lock each:
//
//   - registry: which volumes and projections there are, and which of them use which source
//   - syncQueue: which projections wait for a sync, and when a failed sync is tried again
//   - look: what is known of the sources at one moment, and what the files must be by that
//   - syncer: makes the files of a projection equal to its plan
//   - admission: how much of the node's memory each projection takes
//   - notifier: the Events of volumes
//   - describer: status, summary and condition of volumes
//   - stallDetector: whether work goes on
//
// A projection has two locks. Its mu is held for the length of a sync, whose system calls may hang.
// Its flags have a separate lock, so that no call and no watch waits for a sync.
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
	record     state.Record      // Without attributes.
	attributes map[string]string // Nil once the volume is live: its projection holds their meaning. Only its publish uses them.
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

// newVolume returns the volume that a record asks for, before its attributes are parsed.
func newVolume(r state.Record, m memory) *volume {
	v := &volume{asked: r.Fingerprint(), attributes: r.Attributes}
	r.Attributes = nil
	v.record = r
	v.of.Store(newProjection(v, m))
	return v
}

// projection returns what holds the files of the volume.
func (v *volume) projection() *projection { return v.of.Load() }

// lock locks the projection of the volume, and returns it.
func (v *volume) lock() *projection {
	for {
		p := v.projection()
		p.mu.Lock()
		if v.projection() == p {
			return p
		}
		p.mu.Unlock() // The volume has joined another meanwhile.
	}
}

// lockBefore locks the projection of the volume, and returns it; nil if the deadline comes first.
func (v *volume) lockBefore(deadline time.Time) *projection {
	for {
		p := v.projection()
		if !p.lockBefore(deadline) {
			return nil
		}
		if v.projection() == p {
			return p
		}
		p.mu.Unlock()
	}
}

// isLive reports whether running containers may use the volume. It waits for nothing.
func (v *volume) isLive() bool { return v.phase.is(live) }

// problemLocked returns why the files that the volume shows are not current; nil when they are.
func (v *volume) problemLocked() error {
	if problem := v.projection().problem; problem != nil {
		return problem
	}
	return v.lost
}

// name returns the volume's name in the pod spec, which the kubelet puts before the last element of
// the target path.
func (v *volume) name() string { return filepath.Base(filepath.Dir(v.record.TargetPath)) }
