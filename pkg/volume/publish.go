package volume

import (
	"context"
	"errors"
	"slices"
	"time"

	"k8s.io/klog/v2"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/identity"
	"github.com/liveconfig-csi/liveconfig/pkg/logkeys"
	"github.com/liveconfig-csi/liveconfig/pkg/source"
	"github.com/liveconfig-csi/liveconfig/pkg/state"
	"github.com/liveconfig-csi/liveconfig/pkg/volumefs"
)

// Publish makes the volume of the record appear on its target path, complete. A repeat for a live volume succeeds
// whatever state its sources, its attributes or the API server are in; one with other parameters is refused and changes
// nothing. The token is what the pod's own reading needs, and may be none. When the first publish fails nothing is left
// behind. Errors are of type *[Error].
func (m *Manager) Publish(ctx context.Context, r state.Record, t identity.Token) error {
	unlock, ok := m.calls.TryLock(r.VolumeID)
	if !ok {
		return refuse("publish", r.VolumeID, Busy, "another call for volume %s is under way", r.VolumeID)
	}
	defer unlock()
	v := m.lookup(r.VolumeID)
	if v != nil && v.record.TargetPath != r.TargetPath {
		return different(v)
	}
	mounted, err := m.mounted(ctx, v, r.TargetPath)
	switch {
	case err != nil:
		return wrap("publish", r.VolumeID, err)
	case v == nil && mounted:
		return m.republishUnknown(ctx, r, t)
	case v == nil:
		return m.publishFirst(ctx, r, t)
	case !mounted:
		return m.publishAnew(ctx, v, r, t)
	case v.asked != r.Fingerprint():
		return different(v)
	}
	m.keep(ctx, v, t)
	m.repeat(ctx, v, r)
	return nil
}

// repeat has a live volume checked: its record, and in the background its files.
func (m *Manager) repeat(ctx context.Context, v *volume, r state.Record) {
	defer m.pulse.works(r.VolumeID)()
	if err := m.cfg.Records.Ensure(r); err != nil {
		logUnrecorded(ctx, r, err)
	}
	v.distrusted.Store(true)
	m.enqueue(v)
}

// logUnrecorded is all there is to do: the files are there and stay; only the next restart would miss them, until the
// kubelet repeats itself.
func logUnrecorded(ctx context.Context, r state.Record, err error) {
	klog.FromContext(ctx).Error(err, "A live volume could not be recorded", logkeys.VolumeID, r.VolumeID)
}

// different refuses a request for a live volume that is no repeat.
func different(v *volume) error {
	return refuse("publish", v.record.VolumeID, Different,
		"volume %s is already published on %s with other parameters", v.record.VolumeID, v.record.TargetPath)
}

// mounted reports whether the volume is on the target. When the node cannot tell, a known one is taken to be where it
// was: an error could make the kubelet destroy it under a running pod.
func (m *Manager) mounted(ctx context.Context, v *volume, target string) (bool, error) {
	if v != nil && v.isSeen() {
		return true, nil
	}
	mounted, err := m.cfg.Mounts.Mounted(target)
	if err != nil && v != nil {
		klog.FromContext(ctx).Error(err, "A volume is taken to be mounted", logkeys.VolumeID, v.record.VolumeID)
		return true, nil
	}
	return mounted, err
}

// publishAnew makes a volume again that somebody unmounted: containers that start from now on need it.
func (m *Manager) publishAnew(ctx context.Context, v *volume, r state.Record, t identity.Token) error {
	if err := m.cfg.Records.Delete(r.VolumeID); err != nil {
		return wrap("publish", r.VolumeID, err)
	}
	m.forget(v)
	return m.publishFirst(ctx, r, t)
}

// republishUnknown takes over a volume that is mounted although nothing is recorded of it: its record was lost.
func (m *Manager) republishUnknown(ctx context.Context, r state.Record, t identity.Token) error {
	v, mistake, err := m.findUnknown(ctx, r)
	if err != nil {
		return wrap("publish", r.VolumeID, err)
	}
	defer m.pulse.works(r.VolumeID)()
	if mistake == nil {
		m.keep(ctx, v, t) // Before it is read with.
	}
	if err := m.adopt(ctx, v, mistake); err != nil {
		m.dropToken(ctx, r.VolumeID)
		return err
	}
	if err := m.cfg.Records.Adopt(r); err != nil {
		logUnrecorded(ctx, r, err)
	}
	return nil
}

// findUnknown is find for a request, which takes its turn.
func (m *Manager) findUnknown(ctx context.Context, r state.Record) (v *volume, mistake, err error) {
	done, err := m.turns.Take(ctx, r.Pod.Namespace)
	if err != nil {
		return nil, nil, err
	}
	defer done()
	v, mistake = m.find(r)
	return v, mistake, nil
}

// publishFirst makes a new volume. Everything that can be refused is refused before anything is touched. What it has made
// goes when it fails, and also when it panics: that ends the call, but not the driver.
func (m *Manager) publishFirst(ctx context.Context, r state.Record, t identity.Token) (err error) {
	v := m.newVolume(r)
	isPlaced := false
	defer func() {
		if !isPlaced {
			v.account.Close()
		}
	}()
	if err := m.admit(ctx, v); err != nil {
		return wrapAdmit(r.VolumeID, err)
	}
	if err := m.register(v); err != nil {
		return err
	}
	defer func() {
		if !isPlaced {
			m.forget(v)
			err = wrap("publish", r.VolumeID, errors.Join(err, m.cfg.Tokens.Drop(r.VolumeID)))
		}
	}()
	m.keep(ctx, v, t)
	err = m.place(ctx, v)
	isPlaced = err == nil
	return err
}

// admit reads what is asked for. It takes the room for that first, and then for what has to be read of the API server.
func (m *Manager) admit(ctx context.Context, v *volume) error {
	if err := v.account.Open(v.unread()); err != nil {
		return err
	}
	done, err := m.parsing.Take(ctx, v.record.Pod.Namespace)
	if err != nil {
		return err
	}
	defer done()
	if err := m.parse(v); err != nil {
		return err
	}
	return v.account.Open(v.pending())
}

// keep stores the volume's token, if a source will be read with it. A token that cannot be written to disk is still used by
// this run of the driver.
func (m *Manager) keep(ctx context.Context, v *volume, t identity.Token) {
	isOver := v.live.Load() && v.spec.UpdatePolicy == api.UpdateNever
	if isOver || !slices.ContainsFunc(v.keys, isReadByPod) {
		return
	}
	if err := m.cfg.Tokens.Keep(v.record.VolumeID, v.record.Pod, t); err != nil {
		klog.FromContext(ctx).Error(err, "A token would not outlive the driver", logkeys.VolumeID, v.record.VolumeID)
	}
}

// dropToken removes the token of a volume whose sources are not read any more.
func (m *Manager) dropToken(ctx context.Context, volumeID string) {
	if err := m.cfg.Tokens.Drop(volumeID); err != nil {
		klog.FromContext(ctx).Error(err, "A token that is of no use stays", logkeys.VolumeID, volumeID)
	}
}

// isReadByPod reports whether a source is read with the pod's own credentials.
func isReadByPod(key source.Key) bool {
	return key.Identity != identity.Driver() && !key.Identity.ByDriver
}

// wrapAdmit calls mistakes in the attributes by their kind.
func wrapAdmit(volumeID string, err error) error {
	if _, ok := errors.AsType[*api.AttributesError](err); ok {
		return &Error{Op: "publish", VolumeID: volumeID, Kind: Invalid, Err: err}
	}
	return wrap("publish", volumeID, err)
}

// place waits for the sources and makes the volume.
func (m *Manager) place(ctx context.Context, v *volume) error {
	if err := m.acquire(v); err != nil {
		return err
	}
	for {
		if err := m.await(ctx, v); err != nil {
			return err
		}
		// A newcomer to an immutable object has it read anew for everybody: then it is waited for once more.
		if err := m.makeInTurn(ctx, v); !isFirstRead(err) {
			return err
		}
	}
}

func (m *Manager) makeInTurn(ctx context.Context, v *volume) error {
	done, err := m.turns.Take(ctx, v.record.Pod.Namespace)
	if err != nil {
		return err
	}
	defer done()
	return m.make(ctx, v)
}

// make records the volume and makes its files. The record comes first: a crash after it leaves a record without a mount, which
// the next run drops. What it has made goes when it fails or panics.
func (m *Manager) make(ctx context.Context, v *volume) (err error) {
	defer m.pulse.works(v.record.VolumeID)()
	isMade := false
	defer func() {
		if !isMade { // The record may be there although Put has failed.
			err = errors.Join(err, m.cfg.Records.Delete(v.record.VolumeID))
		}
	}()
	r := v.record
	r.Attributes = v.attributes
	if err := m.cfg.Records.Put(r); err != nil {
		return err
	}
	err = m.fill(ctx, v)
	isMade = err == nil
	return err
}

// fill syncs the volume for the first time. A mount on the target that is not the volume's is left, whatever happens.
func (m *Manager) fill(ctx context.Context, v *volume) (err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	isFilled := false
	defer func() {
		if !isFilled && v.live.Load() {
			err = errors.Join(err, m.cfg.Mounts.Unmount(v.record.TargetPath))
		}
	}()
	v.dirty.take() // It was no change that has to reach the files.
	if _, err := m.sync(ctx, v); err != nil {
		return err
	}
	klog.FromContext(ctx).V(2).Info("Published", logkeys.Pod, v.record.Pod)
	if v.spec.UpdatePolicy == api.UpdateNever {
		v.frozen = true
		v.dropSources()
		m.dropToken(ctx, v.record.VolumeID)
	} else {
		m.tellPolled(v)
	}
	v.attributes = nil
	if !v.dirty.oldest().IsZero() {
		m.enqueue(v) // A change since the sources were read, which no worker may have seen to.
	}
	isFilled = true
	return nil
}

// answerTimeout is how long a publish waits for the API server's first answer about its sources. It is over well before a
// kubelet gives the call up, which then could not say why: a network that swallows everything answers nothing.
const answerTimeout = 20 * time.Second

// await returns once a tree can be built, or with the reason why not when the publish timeout is over. What is not there
// is said on the pod at once. The timeout is for what is missing: it begins when the API server has answered, for which
// there is a limit of its own.
func (m *Manager) await(ctx context.Context, v *volume) error {
	answer := time.After(answerTimeout)
	var limit <-chan time.Time
	told := ""
	for {
		err := m.obstacleInTurn(ctx, v)
		if err == nil || kindOf(err) == Invalid || kindOf(err) == Exhausted {
			return err
		}
		if limit == nil && !isFirstRead(err) {
			limit = time.After(m.cfg.PublishTimeout)
		}
		if news := gist(err); news != told && !isFirstRead(err) {
			told = news
			m.event(v, ReasonWaiting, "waiting for a source: %v", err)
		}
		select {
		case <-v.wake:
		case <-answer:
			if isFirstRead(err) {
				return err
			}
		case <-limit:
			return err
		case <-ctx.Done():
			return err
		case <-m.stopping:
			return errStopping
		}
	}
}

// obstacleInTurn is obstacle for a publish, for which there must be room as well.
func (m *Manager) obstacleInTurn(ctx context.Context, v *volume) error {
	done, err := m.turns.Take(ctx, v.record.Pod.Namespace)
	if err != nil {
		return err
	}
	defer done()
	plan, _, err := m.read(v)
	if err != nil {
		return err
	}
	return v.openFor(plan)
}

// isFirstRead reports that it is too early to say what is wrong: the API server's first answer about a source is on its
// way.
func isFirstRead(err error) bool {
	sources, ok := errors.AsType[*sourcesError](err)
	return ok && slices.ContainsFunc(sources.unread, func(u *unreadError) bool { return u.err == nil })
}

// Unpublish removes the volume from its target path, and the path itself. A volume that is not known, or not there any
// more, is not an error, and neither is a target where no volume can be, such as a symbolic link: it is left as it is.
func (m *Manager) Unpublish(ctx context.Context, volumeID, target string) error {
	unlock, ok := m.calls.TryLock(volumeID)
	if !ok {
		return refuse("unpublish", volumeID, Busy, "another call for volume %s is under way", volumeID)
	}
	defer unlock()
	defer m.pulse.works(volumeID)()
	v := m.lookup(volumeID)
	if v != nil {
		if recorded := v.record.TargetPath; recorded != target {
			if err := m.unmount(ctx, volumeID, recorded); err != nil {
				return wrap("unpublish", volumeID, err) // Still known, so that the next try finds that mount as well.
			}
		}
		m.forget(v)
	}
	if !m.isOthers(target, volumeID) {
		if err := m.unmount(ctx, volumeID, target); err != nil {
			return wrap("unpublish", volumeID, err)
		}
	}
	if err := errors.Join(m.cfg.Tokens.Drop(volumeID), m.cfg.Records.Delete(volumeID)); err != nil {
		return wrap("unpublish", volumeID, err)
	}
	if v != nil {
		klog.FromContext(ctx).V(2).Info("Unpublished", logkeys.Pod, v.record.Pod)
	}
	return nil
}

// unmount takes the volume away from a target. Where none can be, behind a link or outside the kubelet's directory, there is
// nothing to do: the kubelet repeats an unpublish that fails without end, and keeps the pod as long.
func (m *Manager) unmount(ctx context.Context, volumeID, target string) error {
	err := m.cfg.Mounts.Unmount(target)
	if _, link := errors.AsType[*volumefs.SymlinkError](err); link || errors.Is(err, volumefs.ErrOutside) {
		klog.FromContext(ctx).Error(err, "Nothing was unmounted; a volume of an earlier time stays where it is",
			logkeys.VolumeID, volumeID)
		return nil
	}
	return err
}
