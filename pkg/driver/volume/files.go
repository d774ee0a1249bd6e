package volume

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/api/statusz"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/source"
	"github.com/liveconfig-csi/liveconfig/pkg/files/atomicdir"
	"github.com/liveconfig-csi/liveconfig/pkg/files/tree"
	"github.com/liveconfig-csi/liveconfig/pkg/files/treebuilder"
	"github.com/liveconfig-csi/liveconfig/pkg/files/volumefs"
)

// Replaced files stay for graceTime, as long as a reader may take to walk a path, queueing
// included. They may take graceBytes of memory when changes follow each other quickly.
const (
	graceTime  = 250 * time.Millisecond
	graceBytes = 1 << 20
)

// files is what the driver knows of the files of one projection, whose mu guards it.
type files struct {
	known  atomicdir.Known // The state of the root after the last write.
	view   View            // The cached view of a live projection; nil for none yet.
	digest string          // Of the tree last written or found equal; empty after a restart or a failed write.
	// sums has a digest for each file of that tree; empty for a volume that selects no objects.
	sums tree.Sums
	// mountPoints are those of the last write; nil after a restart, until the first sync.
	mountPoints *mountPoints
	tidyAt      time.Time // When replaced files may go; zero without such files.
	// projected are the objects whose content is in the files, sorted; nil after a restart, until
	// the first sync. A map takes the memory of eight for one, and most volumes have one.
	projected []projected
}

// projected is which version of an object is in the files, and when it was written, by the API
// server's clock.
type projected struct {
	ref     api.Ref
	version statusz.Version
	changed time.Time
}

// of returns what the files have of the object.
func (f *files) of(ref api.Ref) (has projected, ok bool) {
	i, found := slices.BinarySearchFunc(f.projected, ref, projected.compare)
	if !found {
		return projected{}, false
	}
	return f.projected[i], true
}

// compare orders objects.
func (p projected) compare(ref api.Ref) int {
	return cmp.Or(cmp.Compare(p.ref.Name, ref.Name), cmp.Compare(p.ref.Namespace, ref.Namespace),
		cmp.Compare(p.ref.Kind, ref.Kind))
}

// setProjected stores the objects that the files come from. It returns when the newest change
// was made that has reached the files; zero for none. Not each change of an object moves its time.
func (f *files) setProjected(contents map[api.Ref]api.Content) (reached time.Time) {
	next := make([]projected, 0, len(contents))
	for ref, c := range contents {
		next = append(next, projected{ref: ref, version: versionOf(c), changed: c.ChangedAt})
		before, known := f.of(ref)
		if known && c.ChangedAt.After(before.changed) && c.ChangedAt.After(reached) {
			reached = c.ChangedAt
		}
	}
	slices.SortFunc(next, func(a, b projected) int { return a.compare(b.ref) })
	f.projected = next
	return reached
}

// have reports whether the files have exactly these contents.
func (f *files) have(contents map[api.Ref]api.Content) bool {
	if f.digest == "" || len(f.projected) != len(contents) {
		return false
	}
	for ref, c := range contents {
		if p, ok := f.of(ref); !ok || p.version != versionOf(c) {
			return false
		}
	}
	return true
}

func versionOf(c api.Content) statusz.Version {
	return statusz.Version{UID: c.UID, ResourceVersion: c.ResourceVersion}
}

// write writes the tree into the volume's file system. For a volume that is not live it creates a
// file system and, when the files are complete, moves it onto the target path.
func (h held) write(w write) (changed bool, err error) {
	view, err := h.openView(w)
	if err != nil {
		return false, err
	}
	defer func() {
		h.charge(view)
		if err != nil && !isEarly(err) || view != h.files.view {
			err = errors.Join(err, h.closeCachedView(), view.Close()) // The next sync opens a new view.
		}
	}()
	changed, err = h.writer(view, w).Write(view.Root(), w.tree)
	if err != nil || h.isLive() {
		return changed, err
	}
	return true, h.publish(view)
}

// publish mounts the files of a projection that is not live on the target of its only volume.
func (h held) publish(view View) error {
	v := h.volumes[0]
	if err := view.Publish(v.record.TargetPath); err != nil {
		return err
	}
	v.mount = view.Mount()
	v.phase.set(live)
	h.phase.set(live)
	return nil
}

// writer returns the writer of the volume's update policy. A volume that never updates is
// written once, in the default layout.
func (h held) writer(view View, w write) atomicdir.Writer {
	room := func() error { return h.reserve(view, w) }
	switch h.spec.UpdatePolicy {
	case api.UpdateReplace:
		return atomicdir.Replace{Room: room}
	case api.UpdateInPlace:
		return atomicdir.InPlace{Room: room}
	case api.UpdateAtomic, api.UpdateNever:
	}
	return atomicdir.Atomic{
		Room: room, Differs: w.differs, IsNew: !h.isLive(), Grace: atomicdir.Grace{Time: graceTime, Bytes: graceBytes},
		Known: &h.files.known, Keeps: w.keeps,
	}
}

// openView returns a view of the files. It returns the cached view of a live volume if that is
// still what is mounted on the target. An atomic update that must write skips this check: the files
// are looked at again after graceTime, and a write into an unmounted file system does no harm.
func (h held) openView(w write) (View, error) {
	isCheckedLater := w.differs && h.spec.UpdatePolicy == api.UpdateAtomic
	switch {
	case !h.isLive():
		return h.node.views.Create(limitsOf(h.spec))
	case h.files.view != nil && isCheckedLater, h.files.view != nil && h.mountedTarget() != "":
		return h.files.view, nil
	}
	view, err := h.openAny()
	if err == nil {
		err = h.closeCachedView()
		h.files.view = view
	}
	return view, err
}

// openAny opens the files on the first target where that is possible.
func (h held) openAny() (view View, err error) {
	for _, v := range h.volumes {
		if view, err = h.node.views.Open(v.record.TargetPath); err == nil {
			v.mount = view.Mount()
			return view, nil
		}
	}
	return nil, err
}

func (h held) closeCachedView() error {
	view := h.files.view
	h.files.view = nil
	if view == nil {
		return nil
	}
	return view.Close()
}

// mountedTarget returns a target on which the files are mounted; empty for none.
func (h held) mountedTarget() string {
	for _, v := range h.volumes {
		if h.node.views.IsAt(v.record.TargetPath, v.mount) {
			return v.record.TargetPath
		}
	}
	return ""
}

// checkMounts looks whether each of the volumes that share files is where it was published.
func (h held) checkMounts() {
	for _, v := range h.volumes {
		v.lost = nil
		if len(h.volumes) > 1 && !h.node.views.IsAt(v.record.TargetPath, v.mount) {
			v.lost = h.find(v)
		}
	}
}

// find looks for the mount of a volume that shares its files, and returns why it is not there.
func (h held) find(v *volume) error {
	view, err := h.node.views.Open(v.record.TargetPath)
	if err != nil {
		return err
	}
	if at := view.Mount(); at.SharesFilesWith(h.files.view.Mount()) {
		v.mount = at
	} else {
		err = fmt.Errorf("%s has the files of another volume", v.record.TargetPath)
	}
	return errors.Join(err, view.Close())
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
	bytes, files, inodes, rendered, combined := int64(0), int64(0), int64(0), int64(0), int64(0)
	if spec.HasExpand() {
		rendered += treebuilder.MaxExpandedOfAll
	}
	for _, s := range spec.Sources {
		items := int64(len(s.Items))
		switch {
		case s.Selection != nil:
			bytes += source.MaxSelectedBytes
			files += filesPerObject
			inodes += 2*filesPerObject + source.MaxSelected*inodesPerItem // Its source takes up to one more.
		case s.As != nil:
			combined = treebuilder.MaxRendered // For all of these files together.
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
	inodes += int64(len(spec.MountPoints)+len(spec.MountPointsIfAbsent)) * inodesPerItem
	if spec.UpdatePolicy == api.UpdateInPlace {
		inodes += atomicdir.MaxKept
	}
	return volumefs.Limits{
		Bytes:  generations*(bytes+rendered+combined+files*page) + bytesForNames,
		Inodes: generations*(inodes+files) + inodesForNames, // Each file may have a link in the root.
	}
}
