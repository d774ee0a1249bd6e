package volume

import (
	"errors"
	"os"
	"slices"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/budget"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/source"
	"github.com/liveconfig-csi/liveconfig/pkg/files/atomicdir"
	"github.com/liveconfig-csi/liveconfig/pkg/files/treebuilder"
	"github.com/liveconfig-csi/liveconfig/pkg/files/volumefs"
)

// How much of the node's memory a volume takes besides the pages of its files. Measured.
const (
	bytesPerVolume = 32 << 10 // A mount, its file system, and what the driver stores of them.
	bytesPerInode  = 1 << 10  // The inode and the name of a file, directory or link.
	bytesPerSource = 128      // An extended attribute of a file, besides its value.
	// bytesPerPublish is for a call and for what it reads before the size of that is known.
	bytesPerPublish = 256 << 10
	bytesPerUse     = 1 << 10 // Of each source of a volume, even one with other users.
	bytesPerItem    = 128     // Of each item of a volume, besides its key and path.
	bytesPerKey     = 512     // Of each key of the sources, while files are planned.
	// keysUnasked is how many keys a plan has without asking for room, and bytesUnasked is how much
	// a sync renders. Few syncs run at a time, and a publish has bytesPerPublish.
	keysUnasked  = 1 << 12
	bytesUnasked = 64 << 10
)

// roomTimeout is how long a change may wait for room before an Event on the pod reports it. A
// change of an object that many volumes share takes the room twice, and each volume gives half of
// it back [graceTime] to twice that later. New volumes get no more than three quarters of all room,
// so the rest is enough for all volumes within three rounds.
const roomTimeout = 8 * graceTime

// memory is what one volume takes of the room. The volume's mu guards it, except for the account.
type memory struct {
	account    *budget.Account
	recordSize int       // In bytes, about.
	borrowed   int64     // The room for what was planned and rendered and is not in the files yet.
	fullSince  time.Time // Since when there is no room for a change; zero if there is.
}

// admitUnparsed takes the room for a publish whose attributes are not parsed yet.
func (p *projection) admitUnparsed() error { return p.memory.account.Open(p.sizeUnparsed()) }

// admitSources takes the room for a publish that is about to read its sources.
func (p *projection) admitSources() error { return p.memory.account.Open(p.sizePending()) }

// admitFiles takes the room for the files of a new volume. A live volume has room already.
func (p *projection) admitFiles(plan treebuilder.Plan) error {
	if p.isLive() {
		return nil
	}
	return p.memory.account.Open(bytesPerVolume + p.footprint() + neededBy(plan))
}

// plan plans the files of a look. The room for a large plan is taken first, until giveBack is
// called.
func (h held) plan(
	l look,
) (plan treebuilder.Plan, contents map[api.Ref]api.Content, giveBack func(), err error) {
	giveBack, err = h.borrow(int64(l.keyCount()-keysUnasked)*bytesPerKey, l.removesFiles())
	if err != nil {
		return treebuilder.Plan{}, nil, func() {}, err
	}
	plan, contents, err = l.plan()
	return plan, contents, giveBack, err
}

// borrow takes the room for what a sync plans or renders, which is in memory beside the files until
// giveBack is called. A live volume waits for that room as for the room of its files, unless files
// must go.
func (h held) borrow(bytes int64, mustGo bool) (giveBack func(), err error) {
	if bytes <= bytesUnasked {
		return func() {}, nil
	}
	account := h.node.room.Account()
	switch {
	case !h.isLive():
		if err := account.Open(bytes); err != nil {
			return nil, err
		}
	case mustGo:
		account.Force(bytes)
	default:
		if err := account.Resize(bytes); err != nil {
			return nil, h.waitForRoom(h.memory.account.Size()+bytes, err)
		}
	}
	h.memory.borrowed += bytes
	return func() {
		h.memory.borrowed -= bytes
		account.Close()
	}, nil
}

// reserve takes the room for the files of a tree beside those that are there. If the node has too
// little, the volume is synced again as soon as it has enough. Files that must go do not wait.
func (h held) reserve(view View, w write) error {
	if !h.isLive() {
		return nil // admitFiles has taken it.
	}
	account := h.memory.account
	if w.mustGo {
		account.Force(account.Size() + w.needed)
		return nil
	}
	if account.Resize(account.Size()+w.needed) == nil {
		return nil
	}
	h.charge(view) // Files that the last write left may be gone.
	wanted := account.Size() + w.needed
	if err := account.Resize(wanted); err != nil {
		return h.waitForRoom(wanted, err)
	}
	return nil
}

// waitForRoom queues a live volume when its account can be as large as wanted, beside what the
// volume has borrowed and will borrow again. It returns the error, or for a while an
// [atomicdir.EarlyError].
func (h held) waitForRoom(wanted int64, err error) error {
	m := &h.memory
	m.account.WhenRoom(wanted+m.borrowed, func() { h.node.queue.add(h.projection) })
	if m.fullSince.IsZero() {
		m.fullSince = time.Now()
	}
	if until := m.fullSince.Add(roomTimeout); time.Now().Before(until) {
		return &atomicdir.EarlyError{Until: until}
	}
	return err
}

// charge takes as much room as the volume uses. If the usage is not known, nothing changes.
func (h held) charge(view View) {
	if !h.isLive() {
		h.memory.account.Force(h.sizePending()) // The files of a failed publish are gone.
		return
	}
	if usage, err := view.Usage(); err == nil {
		h.chargeUsage(usage)
	}
}

// chargeUsage takes as much room as the volume uses, even beyond the limit.
func (p *projection) chargeUsage(u volumefs.Usage) {
	p.memory.account.Force(p.footprint() + bytesPerVolume + u.BytesUsed + u.InodesUsed*bytesPerInode)
}

// chargeJoined takes the room of a volume that shares its files.
func (v *volume) chargeJoined(recordSize int) {
	v.account.Force(bytesPerVolume + wholePages(recordSize))
}

// neededBy returns how much memory it takes, at most, to write all files of a plan.
func neededBy(plan treebuilder.Plan) int64 {
	const fixed = 4 // The directory of a generation, the link to it, and their like.
	bytes, inodes := int64(0), int64(fixed+len(plan.Dirs()))
	for size := range plan.Sizes() {
		bytes += wholePages(size)
		inodes += 2 // The file, and perhaps a link in the root.
	}
	for size := range plan.SourceSizes() {
		bytes += bytesPerSource + int64(size)
	}
	return bytes + inodes*bytesPerInode
}

func wholePages(size int) int64 {
	page := os.Getpagesize()
	return int64((size + page - 1) / page * page)
}

// footprint returns how much memory the volume takes besides its files.
func (p *projection) footprint() int64 {
	size := wholePages(p.memory.recordSize)
	for _, s := range p.spec.Inputs() {
		size += bytesPerUse
		for _, item := range s.Items {
			size += bytesPerItem + int64(len(item.Key)+len(item.Path))
		}
		size += sizeOfSelection(s.Selection)
	}
	for _, point := range slices.Concat(p.spec.MountPoints, p.spec.MountPointsIfAbsent) {
		size += bytesPerItem + int64(len(point))
	}
	return size
}

// sizeOfSelection returns how much memory a selection takes, which is nil for a source that names
// its object. Each namespace is a use.
func sizeOfSelection(s *api.Selection) int64 {
	if s == nil {
		return 0
	}
	size := int64(len(s.Selector) + len(s.Path) + len(s.FolderAnnotation))
	for _, namespace := range s.Namespaces {
		size += bytesPerUse + int64(len(namespace))
	}
	return size
}

// sizeUnparsed returns how much memory a publish takes before its attributes are parsed. The call
// holds them twice.
func (p *projection) sizeUnparsed() int64 {
	return bytesPerVolume + 2*int64(p.memory.recordSize) + p.footprint()
}

// sizePending returns how much memory a publish takes until its files are written.
func (p *projection) sizePending() int64 {
	size := p.sizeUnparsed() + bytesPerPublish
	for _, key := range p.keys {
		size += source.BytesOf(key)
	}
	return size
}

func isExhausted(err error) bool {
	_, ok := errors.AsType[*budget.ExhaustedError](err)
	return ok
}
