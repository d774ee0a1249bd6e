package volume

import (
	"context"
	"errors"
	"time"

	"k8s.io/klog/v2"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/daemon/logkeys"
	"github.com/liveconfig-csi/liveconfig/pkg/files/atomicdir"
	"github.com/liveconfig-csi/liveconfig/pkg/files/tree"
)

// sync makes the files of a live projection equal to what its sources have. It does not wait for a
// volume that is being published: a publish that hangs would take the worker with it, and syncs its
// volume itself.
func (p *projection) sync(ctx context.Context) error {
	if !p.isLive() {
		return nil
	}
	h := p.lock()
	defer h.unlock()
	return h.syncLive(ctx)
}

func (h held) syncLive(ctx context.Context) error {
	if !h.isLive() || h.frozen {
		return nil
	}
	h.startTidying()
	l, result, err := h.sync(ctx)
	if isFirstRead(err) {
		return err // After a restart the files stay. The first answer queues the volume again.
	}
	if early, ok := errors.AsType[*atomicdir.EarlyError](err); ok {
		h.node.queue.addAt(h.projection, early.Until)
		return nil
	}
	if disputed, ok := errors.AsType[*disputeError](err); ok {
		h.node.queue.addAt(h.projection, disputed.until)
	}
	o := outcome{result: result, problem: l.withLosses(err), consequence: filesStay}
	if err == nil && l.removesFiles() {
		o.consequence = filesGo
	}
	h.report(ctx, o)
	h.reportPolled(l.polled())
	h.reportLeftOut()
	h.tidyLater(result)
	return o.problem
}

// sync is the one path of publish, update, republish and restart. On an error the files are what
// they were. The look is what it has decided by.
func (h held) sync(ctx context.Context) (look, Result, error) {
	since := h.flags.takeChanged()
	result := ResultFailed
	l, err := h.follow()
	if err == nil {
		defer h.recall(ctx, &l)()
		result, err = h.project(l)
	}
	if isFirstRead(err) {
		return l, result, err // There was nothing to do yet.
	}
	h.noteDelay(since, err)
	if isRetried(err) {
		h.flags.markChanged(since) // The next try is for the same change.
	}
	if isEarly(err) {
		return l, result, err
	}
	h.node.reporter.Synced(result, since)
	klog.FromContext(ctx).V(4).Info("Synced", logkeys.VolumeID, h.id, logkeys.Result, result)
	return l, result, err
}

// isEarly reports whether a write was only too early.
func isEarly(err error) bool {
	_, ok := errors.AsType[*atomicdir.EarlyError](err)
	return ok
}

// project plans the files, takes the room for them, renders and applies them.
func (h held) project(l look) (Result, error) {
	if err := h.decideMountPoints(&l); err != nil {
		return ResultFailed, err
	}
	plan, contents, giveBack, err := h.plan(l)
	defer giveBack()
	if err != nil {
		return ResultFailed, err
	}
	if err := h.admitFiles(plan); err != nil {
		return ResultFailed, err
	}
	giveBackRendered, err := h.borrow(plan.Rendered(), l.removesFiles())
	if err != nil {
		return ResultFailed, err
	}
	defer giveBackRendered()
	t := plan.Tree()
	result, err := h.apply(write{tree: t, needed: neededBy(plan), mustGo: l.removesFiles()})
	if err != nil {
		return ResultFailed, err
	}
	h.facts.bytes = int64(t.Size())
	h.facts.leftOut, h.facts.collisions = plan.LeftOut(), plan.Collisions()
	h.storeMountPoints(plan.MountPoints())
	h.noteCopies(l)
	h.recordApplied(contents, result)
	return result, nil
}

// apply makes the files equal to the tree, if they are not.
func (h held) apply(w write) (Result, error) {
	before := h.files.digest
	digest, sums := h.digest(w.tree)
	distrusted := h.flags.takeDistrust()
	if h.isLive() && before == digest && !distrusted {
		h.files.sums = sums // The same bytes may be in another place.
		return ResultUnchanged, nil
	}
	h.files.digest = "" // A write that fails may already show the new files.
	w.differs = before != "" && before != digest && !distrusted
	if h.spec.HasSelection() {
		was := h.files.sums
		w.keeps = func(path string) bool { return sums.HaveSame(was, path) }
	}
	changed, err := h.write(w)
	if isEarly(err) { // The files are what they were, and the next write goes on from there.
		h.files.digest = before
		if distrusted {
			h.flags.distrust()
		}
	}
	if err != nil {
		return ResultFailed, err
	}
	if distrusted {
		h.checkMounts()
	}
	h.files.digest, h.files.sums = digest, sums
	if !changed {
		return ResultUnchanged, nil
	}
	return ResultWritten, nil
}

// digest returns the digest of a tree. Only a volume that selects objects has sums: it can have
// many large files of which an edit changes one.
func (h held) digest(t tree.Tree) (string, tree.Sums) {
	if !h.spec.HasSelection() {
		return t.Digest(), tree.Sums{}
	}
	return t.DigestAfter(h.files.sums)
}

// recordApplied stores which objects the files come from, after a sync that succeeded.
func (h held) recordApplied(contents map[api.Ref]api.Content, result Result) {
	h.memory.fullSince = time.Time{} // There is room, or none is needed.
	h.facts.checkedAt = time.Now()
	reached := h.files.setProjected(contents)
	if result != ResultWritten {
		return
	}
	h.facts.projectedAt = h.facts.checkedAt
	if !reached.IsZero() {
		h.node.reporter.Reached(reached)
	}
}

// tidyLater queues the volume for when the grace of its replaced files is over.
func (h held) tidyLater(result Result) {
	if result == ResultWritten && h.spec.UpdatePolicy == api.UpdateAtomic {
		h.files.tidyAt = time.Now().Add(2 * graceTime)
	}
	if !h.files.tidyAt.IsZero() {
		h.node.queue.addAt(h.projection, h.files.tidyAt) // An earlier sync does not tidy yet.
	}
}

// startTidying makes the next sync that gets so far look at the files on disk, if it is time.
func (h held) startTidying() {
	if h.files.tidyAt.IsZero() || time.Now().Before(h.files.tidyAt) {
		return
	}
	h.files.tidyAt = time.Time{}
	h.flags.distrust()
}

// write is one write of a tree into the files of a volume.
type write struct {
	tree    tree.Tree
	needed  int64 // The room that the files of the tree take, at most.
	differs bool  // The live files are known to differ from the tree.
	mustGo  bool  // Files of a lost source go with it: the write does not wait for room.
	// keeps reports whether the files that were written last have the same file; nil for not known.
	keeps func(path string) bool
}
