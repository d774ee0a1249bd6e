package volume

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"k8s.io/klog/v2"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/daemon/logkeys"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/identity"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/source"
	"github.com/liveconfig-csi/liveconfig/pkg/files/atomicdir"
	"github.com/liveconfig-csi/liveconfig/pkg/files/projection"
	"github.com/liveconfig-csi/liveconfig/pkg/files/tree"
	"github.com/liveconfig-csi/liveconfig/pkg/files/volumefs"
)

// syncLive syncs a volume from the queue. One that is not live is its publish's business, or nobody's, and is not waited for: a
// publish that hangs would take the worker with it.
func (m *Manager) syncLive(ctx context.Context, volumeID string) error {
	v := m.lookup(volumeID)
	if v == nil || !v.isLive() {
		return nil
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.gone.Load() || v.frozen {
		return nil
	}
	v.startTidying()
	result, err := m.sync(ctx, v)
	if isFirstRead(err) {
		return err // After a restart: the files stay, and the answer on its way queues the volume again.
	}
	if early, ok := errors.AsType[*atomicdir.EarlyError](err); ok {
		m.queue.AddAfter(v.entry(), time.Until(early.Until))
		return nil
	}
	consequence := filesStay
	if err == nil && v.followsLoss() && len(m.lost(v)) > 0 {
		consequence = filesGo
	}
	err = m.withLosses(v, err)
	m.note(ctx, v, result, err, consequence)
	m.tellPolled(v)
	m.tidyLater(v, result)
	return err
}

// tidyLater has a volume synced when the grace of its replaced files is over. v.mu is held.
func (m *Manager) tidyLater(v *volume, result Result) {
	if result == ResultWritten && v.spec.UpdatePolicy == api.UpdateAtomic {
		v.tidyAt = time.Now().Add(2 * graceTime)
	}
	if !v.tidyAt.IsZero() {
		m.queue.AddAfter(v.entry(), time.Until(v.tidyAt)) // Which an earlier sync may come before.
	}
}

// startTidying has the files on disk looked at when it is time. v.mu is held.
func (v *volume) startTidying() {
	if v.tidyAt.IsZero() || time.Now().Before(v.tidyAt) {
		return
	}
	v.tidyAt = time.Time{}
	v.distrusted.Store(true) // Until a sync gets as far as to look, whenever that is.
}

// sync brings the volume's files to what its sources say: the one path of publish, update, republish and restart. On an
// error the files are what they were. v.mu is held.
func (m *Manager) sync(ctx context.Context, v *volume) (Result, error) {
	since := v.dirty.take()
	result, err := m.project(v)
	if isFirstRead(err) {
		return result, err // Nothing was to be done yet.
	}
	v.noteDelay(since, err)
	if err != nil && isRetried(err) {
		v.dirty.mark(since) // It is tried again for the same change.
	}
	if _, early := errors.AsType[*atomicdir.EarlyError](err); early {
		return result, err
	}
	m.cfg.Reporter.Synced(result, since)
	klog.FromContext(ctx).V(4).Info("Synced", logkeys.VolumeID, v.record.VolumeID, logkeys.Result, result)
	return result, err
}

func (m *Manager) project(v *volume) (Result, error) {
	plan, contents, err := m.read(v)
	if err != nil {
		return ResultFailed, err
	}
	if !v.live.Load() { // It has no files that could be these.
		if err := v.openFor(plan); err != nil {
			return ResultFailed, err
		}
	}
	giveBack, err := m.borrow(v, plan.Rendered())
	if err != nil {
		return ResultFailed, err
	}
	defer giveBack()
	t := plan.Tree()
	result, err := m.bring(v, t, neededBy(plan))
	if err == nil {
		m.settle(v, t, contents, result)
	}
	return result, err
}

// bring makes the files what the tree says, if they are not. It needs that much room for them, at most. v.mu is held.
func (m *Manager) bring(v *volume, t tree.Tree, needed int64) (Result, error) {
	before, digest := v.digest, t.Digest()
	distrusted := v.distrusted.Swap(false)
	if v.live.Load() && before == digest && !distrusted {
		return ResultUnchanged, nil
	}
	v.digest = "" // A write that fails may have come as far as to show the new files.
	changed, err := m.write(v, t, needed, before != "" && before != digest && !distrusted)
	if err != nil {
		return ResultFailed, err
	}
	v.digest = digest
	if !changed {
		return ResultUnchanged, nil
	}
	return ResultWritten, nil
}

// obstacle returns everything that stands in the way of the tree that the sources ask for now, or nil.
func (m *Manager) obstacle(v *volume) error {
	_, _, err := m.read(v)
	return err
}

// read returns the tree that the sources ask for now, before anything is rendered, and what it is made of.
func (m *Manager) read(v *volume) (projection.Plan, map[api.Ref]api.Content, error) {
	spec := v.spec
	contents := make(map[api.Ref]api.Content, len(v.keys))
	var unread []*unreadError
	for _, key := range v.keys {
		s := m.cfg.Sources.Get(key)
		switch {
		case v.followsLoss() && s.Revoked:
			spec.Sources = forgive(spec.Sources, key.Ref) // Its files go, as if it were deleted.
		case v.live.Load() && isDoubted(key, s): // As if the answer were on its way: the next one tells.
			unread = append(unread, &unreadError{key: key})
		case !s.Synced, !v.live.Load() && isUnsure(key, s): // What others still hold is not for a newcomer.
			unread = append(unread, &unreadError{key: key, err: s.Err})
			spec.Sources = forgive(spec.Sources, key.Ref) // It is not known to be missing.
		case s.Found:
			contents[key.Ref] = s.Content
		case v.holdsAbsence(key.Ref, s): // The volume changes as a whole, so all of it waits.
			return projection.Plan{}, nil, &atomicdir.EarlyError{Until: s.Changed.Add(source.AbsenceTime)}
		case v.followsLoss():
			spec.Sources = forgive(spec.Sources, key.Ref)
		}
	}
	plan, err := projection.Prepare(spec, v.record.FSGroup, contents)
	if len(unread) > 0 {
		return projection.Plan{}, nil, newSourcesError(unread, err)
	}
	return plan, contents, err
}

// write puts the tree into the volume's file system; for a volume that is not live it makes one and, when it is
// complete, moves it onto the target path. differs says that the live files are known to be others. v.mu is held.
func (m *Manager) write(v *volume, t tree.Tree, needed int64, differs bool) (changed bool, err error) {
	view, err := m.enter(v, differs)
	if err != nil {
		return false, err
	}
	defer func() {
		m.charge(v, view)
		if err != nil || view != v.view {
			err = errors.Join(err, v.leave(view))
		}
	}()
	how := writing{room: func() error { return m.reserve(v, view, needed) }, differs: differs}
	changed, err = how.by(v.spec.UpdatePolicy).Write(view.Root, t)
	if err != nil || v.live.Load() {
		return changed, err
	}
	if err := view.Publish(v.record.TargetPath); err != nil {
		return false, err
	}
	v.live.Store(true)
	return true, nil
}

// enter returns a way into the files: of a live volume the one that is kept, as long as it leads to what is mounted. Where
// the files are looked at a moment later in any case, that is found out then: in files that are mounted nowhere a change does
// no harm. v.mu is held.
func (m *Manager) enter(v *volume, isUrgent bool) (*volumefs.View, error) {
	isLooked := isUrgent && v.spec.UpdatePolicy == api.UpdateAtomic
	switch {
	case !v.live.Load():
		return m.cfg.Mounts.Create(limitsOf(v.spec))
	case v.view != nil && isLooked, v.isEntered():
		return v.view, nil
	}
	view, err := m.cfg.Mounts.Open(v.record.TargetPath)
	if err == nil {
		err = v.dropView()
		v.view = view
	}
	return view, err
}

// isEntered tells whether the way that is kept leads to what is mounted on the target. v.mu is held.
func (v *volume) isEntered() bool { return v.view != nil && v.view.IsAt(v.record.TargetPath) }

// isSeen tells, at the price of one system call, that the volume is where it was published. If it is false that has to be found
// out: the table of the node's mounts grows with its volumes, and the kubelet repeats each publish every minute.
func (v *volume) isSeen() bool {
	if !v.mu.TryLock() {
		return false
	}
	defer v.mu.Unlock()
	return v.live.Load() && v.isEntered()
}

// leave closes a view, and forgets the one that is kept: the next sync takes a new way. v.mu is held.
func (v *volume) leave(view *volumefs.View) error {
	err := v.dropView()
	return errors.Join(err, view.Close())
}

// Room in one generation. An object holds at most 1 MiB, and every file takes whole pages.
const (
	bytesPerObject = 1 << 20
	filesPerObject = 1 << 14 // Of which each has a page: more would cost a node too much.
	inodesPerItem  = 64      // A path has no more elements.
	generations    = 2       // The old one stays until the new one is complete.
	bytesForNames  = 1 << 20
	inodesForNames = 1 << 10
)

// limitsOf returns how large the volume's file system may grow. Nothing is taken before it is used.
func limitsOf(spec api.Spec) volumefs.Limits {
	page := int64(os.Getpagesize())
	bytes, files, inodes, rendered := int64(0), int64(0), int64(0), int64(0)
	for _, s := range spec.Sources {
		items := int64(len(s.Items))
		switch {
		case s.As != nil:
			rendered = projection.MaxRendered // Which is for all of them together.
			files++
			inodes += inodesPerItem
		case items == 0: // Every key of the object is a file.
			bytes += bytesPerObject
			files += filesPerObject
			inodes += filesPerObject
		default:
			bytes += items * bytesPerObject // Each item may be all there is in the object.
			files += items
			inodes += items * inodesPerItem
		}
	}
	return volumefs.Limits{
		Bytes:  generations*(bytes+rendered+files*page) + bytesForNames,
		Inodes: generations*(inodes+files) + inodesForNames, // Each file may have a link in the root.
	}
}

// What a problem means for the files.
const (
	filesStay = "the files stay as they are"
	filesGo   = "the files of the source are removed"
)

// note remembers the outcome of a live volume's sync and tells the pod when its gist differs from the last one's. v.mu is
// held.
func (m *Manager) note(ctx context.Context, v *volume, result Result, problem error, consequence string) {
	before := v.told
	v.setProblem(problem)
	v.told = ""
	if problem != nil {
		v.told = consequence + ": " + gist(problem)
	}
	switch {
	case problem != nil && v.told != before:
		klog.FromContext(ctx).Error(problem, "A live volume is not current: "+consequence,
			logkeys.VolumeID, v.record.VolumeID, logkeys.Pod, v.record.Pod)
		m.event(v, reasonOf(kindOf(problem)), "%s: %v", consequence, problem)
	case problem == nil && before != "":
		m.event(v, ReasonProjected, "the files are current again")
	case problem == nil && result == ResultWritten:
		m.event(v, ReasonProjected, "a change of the sources is in the files")
	}
}

// tellPolled tells the pod, once, of each source that is polled, and how to have it watched. v.mu is held.
func (m *Manager) tellPolled(v *volume) {
	var polled []source.Key
	for _, key := range v.keys {
		if !m.cfg.Sources.Get(key).Polled {
			continue
		}
		polled = append(polled, key)
		if !slices.Contains(v.polled, key) {
			m.event(v, ReasonPolling, "%s is read about twice a minute, because %s may get it but not watch it; to have changes at once, %s",
				key.Ref, key.Identity, howToWatch(key))
		}
	}
	v.polled = polled
}

// howToWatch says what lets the reader of a polled source watch it.
func howToWatch(key source.Key) string {
	if key.Identity == identity.Driver() || key.Identity.ByDriver {
		return "add the verbs list and watch to the driver's ClusterRole"
	}
	return "apply:\n" + identity.Grant(key.Identity, key.Ref)
}

func (m *Manager) event(v *volume, reason Reason, format string, args ...any) {
	m.cfg.Reporter.Event(v.record.Pod, v.name(), reason, fmt.Sprintf("volume %q: "+format, append([]any{v.name()}, args...)...))
}
