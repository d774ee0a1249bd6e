package volume

import (
	"context"
	"errors"
	"os"
	"time"

	"k8s.io/klog/v2"

	"github.com/liveconfig-csi/liveconfig/pkg/daemon/logkeys"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/budget"
	"github.com/liveconfig-csi/liveconfig/pkg/files/atomicdir"
	"github.com/liveconfig-csi/liveconfig/pkg/files/projection"
	"github.com/liveconfig-csi/liveconfig/pkg/files/volumefs"
)

// What a volume takes of the node's memory besides the pages of its files. Measured.
const (
	bytesPerVolume = 32 << 10 // A mount, its file system, and what remembers them.
	bytesPerInode  = 1 << 10  // The inode and the name of a file, directory or link.
	// bytesPerPublish is for a call and what it reads before it is known how large that is.
	bytesPerPublish = 256 << 10
	// bytesPerSource is for each object that it begins to watch, whether that exists or not.
	bytesPerSource = 96 << 10
	bytesPerUse    = 1 << 10 // What a volume remembers of each source, whoever else uses it.
	bytesPerItem   = 128     // And of each item, besides its key and path.
)

// Room is what the memory for the files of all volumes is taken from.
type Room interface {
	// Account returns a new, empty account.
	Account() *budget.Account
}

// usedBy returns how much memory a volume takes.
func usedBy(u volumefs.Usage) int64 { return bytesPerVolume + u.BytesUsed + u.InodesUsed*bytesPerInode }

// neededBy returns how much memory it takes, at most, to write all files of a plan.
func neededBy(plan projection.Plan) int64 {
	const fixed = 4 // The directory of a generation, the link to it, and their like.
	bytes, inodes := int64(0), int64(fixed+len(plan.Dirs()))
	for size := range plan.Sizes() {
		bytes += wholePages(size)
		inodes += 2 // The file, and perhaps a link in the root.
	}
	return bytes + inodes*bytesPerInode
}

func wholePages(size int) int64 {
	page := os.Getpagesize()
	return int64((size + page - 1) / page * page)
}

// footprint returns how much memory the volume takes besides its files: its record on disk, and what is known of it.
func (v *volume) footprint() int64 {
	size := wholePages(v.text)
	for _, s := range v.spec.Sources {
		size += bytesPerUse
		for _, item := range s.Items {
			size += bytesPerItem + int64(len(item.Key)+len(item.Path))
		}
	}
	return size
}

// unread returns how much memory a publish takes whose attributes wait to be read: they are held twice while the call is under
// way.
func (v *volume) unread() int64 { return bytesPerVolume + 2*int64(v.text) + v.footprint() }

// pending returns how much memory a publish takes until its files are made: also what it reads before it is known how large
// that is.
func (v *volume) pending() int64 {
	return v.unread() + bytesPerPublish + int64(len(v.keys))*bytesPerSource
}

// crowdedTime is how long a change may wait for room before anybody is told. A change of an object that many volumes share
// takes the room twice, and each volume gives its half back [graceTime] to twice that later. Beyond three quarters of all room,
// where there are no newcomers any more, three turns are enough for everybody.
const crowdedTime = 8 * graceTime

// reserve takes the room for the files of a tree beside those that are there. When a live volume cannot have it, it is
// synced again as soon as it can, and for a while that is no trouble but an [atomicdir.EarlyError]; but files that must go do
// not wait for room. v.mu is held.
func (m *Manager) reserve(v *volume, view *volumefs.View, needed int64) error {
	if !v.live.Load() {
		return nil // Which was done before anything was.
	}
	m.charge(v, view) // What was left over by then may be gone.
	wanted := v.account.Size() + needed
	if v.followsLoss() && len(m.lost(v)) > 0 {
		v.account.Force(wanted)
		return nil
	}
	if err := v.account.Resize(wanted); err != nil {
		return m.waitForRoom(v, wanted, err)
	}
	return nil
}

// waitForRoom has a live volume synced again when its account can be as large as is wanted, beside what it has borrowed and
// will have to borrow again. It returns the error that said it cannot yet, or for a while an [atomicdir.EarlyError]. v.mu is
// held.
func (m *Manager) waitForRoom(v *volume, wanted int64, err error) error {
	v.account.WhenRoom(wanted+v.borrowed, func() { m.enqueue(v) })
	if v.crowded.IsZero() {
		v.crowded = time.Now()
	}
	if until := v.crowded.Add(crowdedTime); time.Now().Before(until) {
		return &atomicdir.EarlyError{Until: until}
	}
	return err
}

// bytesUnasked is how much a sync may render without asking for room. Few syncs are under way at a time, and a publish has
// [bytesPerPublish].
const bytesUnasked = 64 << 10

// openFor takes the room for a volume that has no files yet, before a byte of them is read.
func (v *volume) openFor(plan projection.Plan) error {
	return v.account.Open(bytesPerVolume + v.footprint() + neededBy(plan))
}

// borrow takes the room for what a sync renders. It is held in memory, beside the files, until it is given back. A live volume
// waits for it as for that of its files. v.mu is held.
func (m *Manager) borrow(v *volume, rendered int64) (giveBack func(), err error) {
	if rendered <= bytesUnasked {
		return func() {}, nil
	}
	account := m.cfg.Room.Account()
	switch {
	case !v.live.Load():
		if err := account.Open(rendered); err != nil {
			return nil, err
		}
	case v.followsLoss() && len(m.lost(v)) > 0:
		account.Force(rendered)
	default:
		if err := account.Resize(rendered); err != nil {
			return nil, m.waitForRoom(v, v.account.Size()+rendered, err)
		}
	}
	v.borrowed = rendered
	return func() {
		v.borrowed = 0
		account.Close()
	}, nil
}

// charge takes as much room as the volume has turned out to use. What is not known stays as it was. v.mu is held.
func (m *Manager) charge(v *volume, view *volumefs.View) {
	if !v.live.Load() {
		v.account.Force(v.pending()) // What was made is gone.
		return
	}
	if usage, err := view.Usage(); err == nil {
		v.account.Force(v.footprint() + usedBy(usage))
	}
}

// chargeFound is charge for a volume that an earlier run has made.
func (m *Manager) chargeFound(ctx context.Context, v *volume) {
	usage, err := m.cfg.Mounts.Usage(v.record.TargetPath)
	if err != nil {
		klog.FromContext(ctx).Error(err, "The room of a volume is not known", logkeys.VolumeID, v.record.VolumeID)
	}
	v.account.Force(v.footprint() + usedBy(usage))
}

// crowdedOut returns an error when there is no room for what a source of the volume has become.
func (m *Manager) crowdedOut(v *volume) error {
	for _, key := range v.keys {
		if s := m.cfg.Sources.Get(key); isExhausted(s.Err) {
			return &unreadError{key: key, err: s.Err}
		}
	}
	return nil
}

func isExhausted(err error) bool {
	_, ok := errors.AsType[*budget.ExhaustedError](err)
	return ok
}

// isRetried reports whether a sync that failed is tried again without a change of a source: the node may come to do it.
func isRetried(err error) bool {
	kind := kindOf(err)
	_, ofSource := errors.AsType[*unreadError](err) // That is read again when there is room, which is a change.
	_, ofSources := errors.AsType[*sourcesError](err)
	return kind == IO || kind == Exhausted && !ofSource && !ofSources
}
