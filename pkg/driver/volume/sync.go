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

// syncer makes the files of volumes equal to what their sources say.
type syncer struct {
	planner   planner
	views     Views
	reporter  Reporter
	queue     *syncQueue
	admission *admission
	notifier  notifier
}

// syncLive syncs a volume from the queue. It does not wait for a volume that is being published: a
// publish that hangs would take the worker with it, and syncs its volume itself.
func (s *syncer) syncLive(ctx context.Context, v *volume) error {
	if !v.isLive() {
		return nil
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.isLive() || v.frozen {
		return nil
	}
	v.startTidyingLocked()
	result, err := s.syncLocked(ctx, v)
	if isFirstRead(err) {
		return err // After a restart the files stay. The first answer queues the volume again.
	}
	if early, ok := errors.AsType[*atomicdir.EarlyError](err); ok {
		s.queue.addAt(v, early.Until)
		return nil
	}
	o := outcome{result: result, consequence: filesStay}
	if err == nil && s.planner.removesFiles(v) {
		o.consequence = filesGo
	}
	o.problem = s.planner.withLossesLocked(v, err)
	s.notifier.outcomeLocked(ctx, v, o)
	s.notifier.polledLocked(v)
	s.tidyLaterLocked(v, result)
	return o.problem
}

// syncLocked is the one path of publish, update, republish and restart. On an error the files are
// what they were.
func (s *syncer) syncLocked(ctx context.Context, v *volume) (Result, error) {
	since := v.flags.takeChanged()
	result, err := s.projectLocked(v)
	if isFirstRead(err) {
		return result, err // There was nothing to do yet.
	}
	v.noteDelayLocked(since, err)
	if isRetried(err) {
		v.flags.markChanged(since) // The next try is for the same change.
	}
	if _, early := errors.AsType[*atomicdir.EarlyError](err); early {
		return result, err
	}
	s.reporter.Synced(result, since)
	klog.FromContext(ctx).V(4).Info("Synced", logkeys.VolumeID, v.record.VolumeID, logkeys.Result, result)
	return result, err
}

// projectLocked plans the files, takes the room for them, renders and applies them.
func (s *syncer) projectLocked(v *volume) (Result, error) {
	plan, contents, err := s.planner.plan(v)
	if err != nil {
		return ResultFailed, err
	}
	if err := s.admission.admitFiles(v, plan); err != nil {
		return ResultFailed, err
	}
	giveBack, err := s.admission.borrowLocked(v, plan.Rendered())
	if err != nil {
		return ResultFailed, err
	}
	defer giveBack()
	t := plan.Tree()
	result, err := s.applyLocked(v, write{tree: t, needed: neededBy(plan)})
	if err != nil {
		return ResultFailed, err
	}
	s.recordAppliedLocked(v, contents, result)
	v.facts.bytes = int64(t.Size())
	return result, nil
}

// applyLocked makes the files equal to the tree, if they are not.
func (s *syncer) applyLocked(v *volume, w write) (Result, error) {
	before, digest := v.files.digest, w.tree.Digest()
	distrusted := v.flags.takeDistrust()
	if v.isLive() && before == digest && !distrusted {
		return ResultUnchanged, nil
	}
	v.files.digest = "" // A write that fails may already show the new files.
	w.differs = before != "" && before != digest && !distrusted
	changed, err := s.writeLocked(v, w)
	if err != nil {
		return ResultFailed, err
	}
	v.files.digest = digest
	if !changed {
		return ResultUnchanged, nil
	}
	return ResultWritten, nil
}

// recordAppliedLocked stores which objects the files come from, after a sync that succeeded.
func (s *syncer) recordAppliedLocked(v *volume, contents map[api.Ref]api.Content, result Result) {
	v.memory.crowded = time.Time{} // There is room, or none is needed.
	v.facts.checkedAt = time.Now()
	reached := v.files.setProjected(contents)
	if result != ResultWritten {
		return
	}
	v.facts.projectedAt = v.facts.checkedAt
	if !reached.IsZero() {
		s.reporter.Reached(reached)
	}
}

// tidyLaterLocked queues the volume for when the grace of its replaced files is over.
func (s *syncer) tidyLaterLocked(v *volume, result Result) {
	if result == ResultWritten && v.spec.UpdatePolicy == api.UpdateAtomic {
		v.files.tidyAt = time.Now().Add(2 * graceTime)
	}
	if !v.files.tidyAt.IsZero() {
		s.queue.addAt(v, v.files.tidyAt) // An earlier sync does not tidy yet.
	}
}

// startTidyingLocked makes the next sync that gets so far look at the files on disk, if it is time.
func (v *volume) startTidyingLocked() {
	if v.files.tidyAt.IsZero() || time.Now().Before(v.files.tidyAt) {
		return
	}
	v.files.tidyAt = time.Time{}
	v.flags.distrust()
}

// write is one write of a tree into the files of a volume.
type write struct {
	tree    tree.Tree
	needed  int64 // The room that the files of the tree take, at most.
	differs bool  // The live files are known to differ from the tree.
}
