package volume

import (
	"errors"
	"os"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/files/atomicdir"
	"github.com/liveconfig-csi/liveconfig/pkg/files/projection"
	"github.com/liveconfig-csi/liveconfig/pkg/files/volumefs"
	"github.com/liveconfig-csi/liveconfig/pkg/statusz"
)

// Replaced files stay for graceTime, as long as a reader may take to walk a path, queueing
// included. They may take graceBytes of memory when changes follow each other quickly.
const (
	graceTime  = 250 * time.Millisecond
	graceBytes = 1 << 20
)

// files is what the driver knows of the files of one volume. The volume's mu guards it.
type files struct {
	view   *volumefs.View // The cached view of a live volume; nil for none yet.
	digest string         // Of the tree last written or found equal; empty after a restart or a failed write.
	tidyAt time.Time      // When replaced files may go; zero if there are none.
	// projected are the objects whose content is in the files; nil after a restart, until the first
	// sync.
	projected map[api.Ref]projected
}

// projected is which version of an object is in the files, and when it was written, by the API
// server's clock.
type projected struct {
	version statusz.Version
	changed time.Time
}

// setProjected stores the objects that the files come from. It returns when the newest change was
// made that has reached the files; zero for none. Not each change of an object moves its time.
func (f *files) setProjected(contents map[api.Ref]api.Content) (reached time.Time) {
	next := make(map[api.Ref]projected, len(contents))
	for ref, c := range contents {
		next[ref] = projected{version: versionOf(c), changed: c.ChangedAt}
		before, known := f.projected[ref]
		if known && c.ChangedAt.After(before.changed) && c.ChangedAt.After(reached) {
			reached = c.ChangedAt
		}
	}
	f.projected = next
	return reached
}

func versionOf(c api.Content) statusz.Version {
	return statusz.Version{UID: c.UID, ResourceVersion: c.ResourceVersion}
}

// writeLocked writes the tree into the volume's file system. For a volume that is not live it
// creates a file system and, when the files are complete, moves it onto the target path.
func (s *syncer) writeLocked(v *volume, w write) (changed bool, err error) {
	view, err := s.openViewLocked(v, w)
	if err != nil {
		return false, err
	}
	defer func() {
		s.admission.chargeLocked(v, view)
		if err != nil || view != v.files.view {
			err = errors.Join(err, v.closeViewLocked(view))
		}
	}()
	changed, err = s.writerLocked(v, view, w).Write(view.Root, w.tree)
	if err != nil || v.isLive() {
		return changed, err
	}
	if err := view.Publish(v.record.TargetPath); err != nil {
		return false, err
	}
	v.flags.setPhase(phaseLive)
	return true, nil
}

// writerLocked returns the writer of the volume's update policy. A volume that never updates is
// written once, in the default layout.
func (s *syncer) writerLocked(v *volume, view *volumefs.View, w write) atomicdir.Writer {
	room := func() error { return s.admission.reserveLocked(v, view, w.needed) }
	switch v.spec.UpdatePolicy {
	case api.UpdateReplace:
		return atomicdir.Replace{Room: room}
	case api.UpdateInPlace:
		return atomicdir.InPlace{Room: room}
	case api.UpdateAtomic, api.UpdateNever:
	}
	return atomicdir.Atomic{Room: room, Differs: w.differs, Grace: atomicdir.Grace{Time: graceTime, Bytes: graceBytes}}
}

// openViewLocked returns a view of the files. It returns the cached view of a live volume if that
// is still what is mounted on the target. An atomic update that must write skips this check: the
// files are looked at again after graceTime, and a write into an unmounted file system does no
// harm.
func (s *syncer) openViewLocked(v *volume, w write) (*volumefs.View, error) {
	isCheckedLater := w.differs && v.spec.UpdatePolicy == api.UpdateAtomic
	switch {
	case !v.isLive():
		return s.views.Create(limitsOf(v.spec))
	case v.files.view != nil && isCheckedLater, v.isViewMountedLocked():
		return v.files.view, nil
	}
	view, err := s.views.Open(v.record.TargetPath)
	if err == nil {
		err = v.closeCachedViewLocked()
		v.files.view = view
	}
	return view, err
}

// closeViewLocked closes a view and the cached one: the next sync opens a new view.
func (v *volume) closeViewLocked(view *volumefs.View) error {
	err := v.closeCachedViewLocked()
	return errors.Join(err, view.Close())
}

func (v *volume) closeCachedViewLocked() error {
	view := v.files.view
	v.files.view = nil
	if view == nil {
		return nil
	}
	return view.Close()
}

// isViewMountedLocked reports whether the cached view is what is mounted on the target.
func (v *volume) isViewMountedLocked() bool {
	return v.files.view != nil && v.files.view.IsAt(v.record.TargetPath)
}

// isSeenMounted reports, by one system call, that the volume is where it was published. If it
// returns false, ask the mount table: that grows with the volumes of the node, and the kubelet
// repeats each publish every minute.
func (v *volume) isSeenMounted() bool {
	if !v.mu.TryLock() {
		return false
	}
	defer v.mu.Unlock()
	return v.isLive() && v.isViewMountedLocked()
}

// Room in one generation. An object has at most 1 MiB, and every file takes whole pages.
const (
	largestObject  = 1 << 20
	filesPerObject = 1 << 14 // Each has a page: more files would cost a node too much.
	inodesPerItem  = 64      // A path has no more elements.
	generations    = 2       // The old one stays until the new one is complete.
	bytesForNames  = 1 << 20
	inodesForNames = 1 << 10
)

// limitsOf returns how large the volume's file system may grow. Memory is taken only when it is
// used.
func limitsOf(spec api.Spec) volumefs.Limits {
	page := int64(os.Getpagesize())
	bytes, files, inodes, rendered := int64(0), int64(0), int64(0), int64(0)
	for _, s := range spec.Sources {
		items := int64(len(s.Items))
		switch {
		case s.As != nil:
			rendered = projection.MaxRendered // For all rendered files together.
			files++
			inodes += inodesPerItem
		case items == 0: // Every key of the object is a file.
			bytes += largestObject
			files += filesPerObject
			inodes += filesPerObject
		default:
			bytes += items * largestObject // Each item may be the whole content of the object.
			files += items
			inodes += items * inodesPerItem
		}
	}
	return volumefs.Limits{
		Bytes:  generations*(bytes+rendered+files*page) + bytesForNames,
		Inodes: generations*(inodes+files) + inodesForNames, // Each file may have a link in the root.
	}
}
