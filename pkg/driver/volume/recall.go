package volume

import (
	"context"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/api/statusz"
	"github.com/liveconfig-csi/liveconfig/pkg/daemon/logkeys"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/access"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/budget"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/source"
	"github.com/liveconfig-csi/liveconfig/pkg/files/atomicdir"
	"github.com/liveconfig-csi/liveconfig/pkg/files/treebuilder"
	"github.com/liveconfig-csi/liveconfig/pkg/release"
)

// recall takes what selections have selected from the files, if they were denied before they were
// read: the driver was restarted, and nothing else has it. So the other sources can go on. If the
// files do not show it, the look stays as it is, and all files will. The room for what is read is
// taken until giveBack is called.
func (h held) recall(ctx context.Context, l *look) (giveBack func()) {
	denied := l.deniedUnread()
	if len(denied) == 0 {
		return func() {}
	}
	account := h.node.room.Account()
	objects, err := h.readSelected(account, denied)
	if err != nil {
		account.Close()
		klog.FromContext(ctx).V(4).Info("The files of a denied selection are not known", logkeys.VolumeID, h.id,
			logkeys.Reason, err.Error())
		return func() {}
	}
	l.denied, l.recalled = denied, objects
	return account.Close
}

// readSelected returns the objects that the files have of selections.
func (h held) readSelected(account *budget.Account, of []source.Key) (treebuilder.Selected, error) {
	view, err := h.openView(write{})
	if err != nil {
		return nil, err
	}
	usage, err := view.Usage()
	if err != nil {
		return nil, err
	}
	isWanted := wantedOf(h.spec, of)
	most := atomicdir.Limits{
		Bytes: min(usage.BytesUsed, h.mostSelected()), Entries: usage.InodesUsed,
		Of: func(text string) bool { return treebuilder.IsRecalled(h.spec, text, isWanted) },
	}
	if err := account.Resize(most.Bytes + most.Entries*bytesPerInode); err != nil {
		return nil, err
	}
	files, err := atomicdir.Read(view.Root(), most)
	if err != nil {
		return nil, err
	}
	return treebuilder.Recall(h.spec, files, isWanted)
}

// wantedOf returns which objects belong to some selections. It is asked about each file.
func wantedOf(spec api.Spec, selections []source.Key) treebuilder.Wanted {
	type place struct {
		source    int
		namespace string // Empty for all.
	}
	wanted := map[place]bool{}
	for at, src := range spec.Sources {
		for _, key := range selections {
			if isOf(src, key) {
				wanted[place{at, key.Ref.Namespace}] = true
			}
		}
	}
	return func(at int, namespace string) bool { return wanted[place{at, ""}] || wanted[place{at, namespace}] }
}

// mostSelected returns how many bytes the files of selected objects have at most. Several sources
// may have the same objects.
func (p *projection) mostSelected() (bytes int64) {
	for _, src := range p.spec.Sources {
		if src.Selection != nil {
			bytes += source.MaxSelectedBytes
		}
	}
	return bytes
}

// deniedUnread returns the selections of a live volume that were denied before they were read, if
// the volume has other sources that can go on.
func (l look) deniedUnread() (denied []source.Key) {
	if len(l.keys) == 1 {
		return nil
	}
	for s := range l.sources() {
		if !l.isLive || !s.key.IsSelection() || !apierrors.IsForbidden(s.now.Err) {
			continue
		}
		switch l.effectOf(s) {
		case access.Await, access.Refuse:
			denied = append(denied, s.key)
		case access.Serve, access.Remove:
		}
	}
	return denied
}

// isRecalled reports whether a source is a selection whose objects are those that the files had,
// also if another identity can read it.
func (l look) isRecalled(key source.Key) bool {
	return slices.ContainsFunc(l.denied, func(denied source.Key) bool {
		return denied.Ref == key.Ref && denied.Selector == key.Selector
	})
}

// forgiveDenied returns the spec with the sources made optional of which nothing can be read: their
// objects need not have had files. A source of which another namespace can be read still needs an
// object, or its last files would go, unless they follow a loss.
func (l look) forgiveDenied(spec api.Spec) api.Spec {
	if len(l.denied) == 0 {
		return spec
	}
	spec.Sources = slices.Clone(spec.Sources)
	for i, src := range spec.Sources {
		isRead := func(ref api.Ref) bool {
			return !l.isRecalled(source.Key{Ref: ref, Selector: src.Selection.Selector})
		}
		if src.Selection != nil && (l.followsLoss() || !slices.ContainsFunc(src.Ranges(), isRead)) {
			spec.Sources[i].Optional = true
		}
	}
	return spec
}

// deniedPartner returns the problem of a denied selection that has an object whose candidate is
// shown together with that of a source. It is not known which of its contents the files have, so
// all files wait for the end of the release.
func (l look) deniedPartner(s seen) *unreadError {
	if s.now.Release.Digest == s.then.Release.Digest {
		return nil // Both contents are the same.
	}
	for name := range s.then.Release.Audience.With() {
		ref, isObject := release.RefOf(s.key.Ref.Namespace, name)
		if !isObject || ref == s.key.Ref || !l.hasRecalled(ref) {
			continue
		}
		for denied := range l.sources() {
			if slices.Contains(l.denied, denied.key) && isIn(denied.key.Ref, ref) {
				return l.unreadOf(denied)
			}
		}
	}
	return nil
}

// hasRecalled reports whether an object is one that the files had.
func (l look) hasRecalled(ref api.Ref) bool {
	isObject := func(o treebuilder.Object) bool { return o.Content.Ref == ref }
	for _, lists := range l.recalled {
		if slices.ContainsFunc(slices.Concat(lists...), isObject) {
			return true
		}
	}
	return false
}

// isIn reports whether an object is of a kind and namespace, which is empty for all.
func isIn(whole, ref api.Ref) bool {
	return whole.Kind == ref.Kind && (whole.Namespace == "" || whole.Namespace == ref.Namespace)
}

// unreadOf returns the problem of a source that is not read. A denial that may be a mistake counts
// as no answer yet.
func (l look) unreadOf(s seen) *unreadError {
	if l.effectOf(s) == access.Await {
		return &unreadError{key: s.key}
	}
	return &unreadError{key: s.key, err: s.now.Err}
}

// addRecalled adds the objects that the files had. Their versions are not known. An object that
// several sources have counts once, as where it is read.
func (c *selected) addRecalled(l look) {
	if len(l.denied) == 0 {
		return
	}
	for _, key := range l.denied {
		c.versions = append(c.versions, api.Content{Ref: key.Ref.Selecting(key.Selector)})
	}
	if c.objects == nil {
		c.objects = treebuilder.Selected{}
	}
	counted := map[source.Key]bool{}
	for _, at := range slices.Sorted(maps.Keys(l.recalled)) {
		for _, objects := range l.recalled[at] {
			for _, o := range objects {
				key := source.Key{Ref: o.Content.Ref, Selector: l.spec.Sources[at].Selection.Selector}
				if !counted[key] {
					counted[key] = true
					c.count++
					c.bytes += o.Content.Size()
				}
			}
		}
		c.objects[at] = append(c.objects[at], l.recalled[at]...)
	}
}

// wasRecalled reports whether the files have the objects of a selection as they were before the
// driver was restarted.
func (l look) wasRecalled(key source.Key) bool {
	ref := key.Ref.Selecting(key.Selector)
	return slices.ContainsFunc(l.projected, func(p projected) bool {
		return p.ref == ref && p.version == statusz.Version{}
	})
}
