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

// syncer makes the files of volumes equal to what their sources have.
type syncer struct {
	sources   Sources
	registry  *registry
	views     Views
	reporter  Reporter
	queue     *syncQueue
	admission *admission
	notifier  notifier
}

// syncLive syncs a volume from the queue. It does not wait for a volume that is being published: a
// publish that hangs would take the worker with it, and syncs its volume itself.
func (s *syncer) syncLive(ctx context.Context, p *projection) error {
	if !p.isLive() {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return s.syncLiveLocked(ctx, p)
}

func (s *syncer) syncLiveLocked(ctx context.Context, p *projection) error {
	if !p.isLive() || p.frozen {
		return nil
	}
	p.startTidyingLocked()
	l, result, err := s.syncLocked(ctx, p)
	if isFirstRead(err) {
		return err // After a restart the files stay. The first answer queues the volume again.
	}
	if early, ok := errors.AsType[*atomicdir.EarlyError](err); ok {
		s.queue.addAt(p, early.Until)
		return nil
	}
	o := outcome{result: result, consequence: filesStay}
	if err == nil && l.removesFiles() {
		o.consequence = filesGo
	}
	o.problem = l.withLosses(err)
	s.notifier.outcomeLocked(ctx, p, o)
	s.notifier.polledLocked(p, l)
	s.tidyLaterLocked(p, result)
	return o.problem
}

// syncLocked is the one path of publish, update, republish and restart. On an error the files are
// what they were. The look is what it has decided by.
func (s *syncer) syncLocked(ctx context.Context, p *projection) (look, Result, error) {
	since := p.flags.takeChanged()
	result := ResultFailed
	l, err := s.followLocked(p)
	if err == nil {
		result, err = s.projectLocked(p, l)
	}
	if isFirstRead(err) {
		return l, result, err // There was nothing to do yet.
	}
	p.noteDelayLocked(since, err)
	if isRetried(err) {
		p.flags.markChanged(since) // The next try is for the same change.
	}
	if _, early := errors.AsType[*atomicdir.EarlyError](err); early {
		return l, result, err
	}
	s.reporter.Synced(result, since)
	klog.FromContext(ctx).V(4).Info("Synced", logkeys.VolumeID, p.id, logkeys.Result, result)
	return l, result, err
}

// projectLocked plans the files, takes the room for them, renders and applies them.
func (s *syncer) projectLocked(p *projection, l look) (Result, error) {
	plan, contents, err := l.plan()
	if err != nil {
		return ResultFailed, err
	}
	if err := s.admission.admitFiles(p, plan); err != nil {
		return ResultFailed, err
	}
	giveBack, err := s.admission.borrowLocked(p, plan.Rendered(), l.removesFiles())
	if err != nil {
		return ResultFailed, err
	}
	defer giveBack()
	t := plan.Tree()
	result, err := s.applyLocked(p, write{tree: t, needed: neededBy(plan), mustGo: l.removesFiles()})
	if err != nil {
		return ResultFailed, err
	}
	p.noteCopiesLocked(l)
	s.recordAppliedLocked(p, contents, result)
	p.facts.bytes = int64(t.Size())
	return result, nil
}

// applyLocked makes the files equal to the tree, if they are not.
func (s *syncer) applyLocked(p *projection, w write) (Result, error) {
	before, digest := p.files.digest, w.tree.Digest()
	distrusted := p.flags.takeDistrust()
	if p.isLive() && before == digest && !distrusted {
		return ResultUnchanged, nil
	}
	p.files.digest = "" // A write that fails may already show the new files.
	w.differs = before != "" && before != digest && !distrusted
	changed, err := s.writeLocked(p, w)
	if err != nil {
		return ResultFailed, err
	}
	if distrusted {
		s.checkMountsLocked(p)
	}
	p.files.digest = digest
	if !changed {
		return ResultUnchanged, nil
	}
	return ResultWritten, nil
}

// recordAppliedLocked stores which objects the files come from, after a sync that succeeded.
func (s *syncer) recordAppliedLocked(p *projection, contents map[api.Ref]api.Content, result Result) {
	p.memory.fullSince = time.Time{} // There is room, or none is needed.
	p.facts.checkedAt = time.Now()
	reached := p.files.setProjectedLocked(contents)
	if result != ResultWritten {
		return
	}
	p.facts.projectedAt = p.facts.checkedAt
	if !reached.IsZero() {
		s.reporter.Reached(reached)
	}
}

// tidyLaterLocked queues the volume for when the grace of its replaced files is over.
func (s *syncer) tidyLaterLocked(p *projection, result Result) {
	if result == ResultWritten && p.spec.UpdatePolicy == api.UpdateAtomic {
		p.files.tidyAt = time.Now().Add(2 * graceTime)
	}
	if !p.files.tidyAt.IsZero() {
		s.queue.addAt(p, p.files.tidyAt) // An earlier sync does not tidy yet.
	}
}

// startTidyingLocked makes the next sync that gets so far look at the files on disk, if it is time.
func (p *projection) startTidyingLocked() {
	if p.files.tidyAt.IsZero() || time.Now().Before(p.files.tidyAt) {
		return
	}
	p.files.tidyAt = time.Time{}
	p.flags.distrust()
}

// write is one write of a tree into the files of a volume.
type write struct {
	tree    tree.Tree
	needed  int64 // The room that the files of the tree take, at most.
	differs bool  // The live files are known to differ from the tree.
	mustGo  bool  // Files of a lost source go with it: the write does not wait for room.
}
