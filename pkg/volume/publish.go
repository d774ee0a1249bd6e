package volume

import (
	"context"
	"errors"
	"time"

	"k8s.io/klog/v2"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/logkeys"
	"github.com/liveconfig-csi/liveconfig/pkg/state"
)

// Publish makes the volume of the record appear on its target path, complete. A repeat for a live volume succeeds
// whatever state its sources, its attributes or the API server are in; one with other parameters is refused and changes
// nothing. When the first publish fails nothing is left behind. Errors are of type *[Error].
func (m *Manager) Publish(ctx context.Context, r state.Record) error {
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
		return m.republishUnknown(ctx, r)
	case v == nil:
		return m.publishFirst(ctx, r)
	case !mounted:
		return m.publishAnew(ctx, v, r)
	case !v.record.Same(r):
		return different(v)
	}
	m.queue.Add(r.VolumeID)
	return nil
}

// different refuses a request for a live volume that is no repeat.
func different(v *volume) error {
	return refuse("publish", v.record.VolumeID, Different,
		"volume %s is already published on %s with other parameters", v.record.VolumeID, v.record.TargetPath)
}

// mounted reports whether the volume is on the target. When the node cannot tell, a known one is taken to be where it
// was: an error could make the kubelet destroy it under a running pod.
func (m *Manager) mounted(ctx context.Context, v *volume, target string) (bool, error) {
	mounted, err := m.cfg.Mounts.Mounted(target)
	if err != nil && v != nil {
		klog.FromContext(ctx).Error(err, "A volume is taken to be mounted", logkeys.VolumeID, v.record.VolumeID)
		return true, nil
	}
	return mounted, err
}

// publishAnew makes a volume again that somebody unmounted: containers that start from now on need it.
func (m *Manager) publishAnew(ctx context.Context, v *volume, r state.Record) error {
	if err := m.cfg.Records.Delete(r.VolumeID); err != nil {
		return wrap("publish", r.VolumeID, err)
	}
	m.forget(v)
	return m.publishFirst(ctx, r)
}

// republishUnknown takes over a volume that is mounted although nothing is recorded of it: its record was lost.
func (m *Manager) republishUnknown(ctx context.Context, r state.Record) error {
	if err := m.cfg.Records.Put(r); err != nil {
		// The files are there and stay; only the next restart would miss them, until the kubelet repeats itself.
		klog.FromContext(ctx).Error(err, "A live volume could not be recorded", logkeys.VolumeID, r.VolumeID)
	}
	m.adopt(ctx, r)
	return nil
}

// publishFirst makes a new volume. Everything that can be refused is refused before anything is touched.
func (m *Manager) publishFirst(ctx context.Context, r state.Record) error {
	v, err := m.prepare(r)
	if err != nil {
		return wrapPrepare(r.VolumeID, err)
	}
	m.register(v)
	if err := m.place(ctx, v); err != nil {
		m.forget(v)
		return wrap("publish", r.VolumeID, err)
	}
	return nil
}

// wrapPrepare calls mistakes in the attributes by their kind.
func wrapPrepare(volumeID string, err error) error {
	if _, ok := errors.AsType[*api.AttributesError](err); ok {
		return &Error{Op: "publish", VolumeID: volumeID, Kind: Invalid, Err: err}
	}
	return wrap("publish", volumeID, err)
}

// place waits for the sources, records the volume and syncs it for the first time. The record comes first: a crash after
// it leaves a record without a mount, which the next run drops.
func (m *Manager) place(ctx context.Context, v *volume) error {
	if err := m.acquire(v); err != nil {
		return err
	}
	if err := m.await(ctx, v); err != nil {
		return err
	}
	if err := m.cfg.Records.Put(v.record); err != nil {
		return errors.Join(err, m.cfg.Records.Delete(v.record.VolumeID)) // It may be there although Put has failed.
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if _, err := m.sync(ctx, v); err != nil {
		return errors.Join(err, m.cfg.Mounts.Unmount(v.record.TargetPath), m.cfg.Records.Delete(v.record.VolumeID))
	}
	if v.spec.UpdatePolicy == api.UpdateNever {
		v.frozen = true
		v.dropSources()
	}
	return nil
}

// await returns once a tree can be built, or with the reason why not when the publish timeout is over. What is not there
// is said on the pod at once.
func (m *Manager) await(ctx context.Context, v *volume) error {
	limit := time.NewTimer(m.cfg.PublishTimeout)
	defer limit.Stop()
	told := ""
	for {
		_, err := m.desired(v)
		if err == nil || kindOf(err) == Invalid {
			return err
		}
		if text := err.Error(); text != told && !isFirstRead(err) {
			told = text
			m.event(v, ReasonWaiting, "waiting for a source: %v", err)
		}
		if !v.wait(ctx, limit.C) {
			return err
		}
	}
}

// isFirstRead reports that nothing is wrong yet: the API server's first answer is on its way.
func isFirstRead(err error) bool {
	var unread *unreadError
	return errors.As(err, &unread) && unread.err == nil
}

// Unpublish removes the volume from its target path, and the path itself. A volume that is not known, or not there any
// more, is not an error.
func (m *Manager) Unpublish(_ context.Context, volumeID, target string) error {
	unlock, ok := m.calls.TryLock(volumeID)
	if !ok {
		return refuse("unpublish", volumeID, Busy, "another call for volume %s is under way", volumeID)
	}
	defer unlock()
	if v := m.lookup(volumeID); v != nil {
		if recorded := v.record.TargetPath; recorded != target {
			if err := m.cfg.Mounts.Unmount(recorded); err != nil {
				return wrap("unpublish", volumeID, err) // Still known, so that the next try finds that mount as well.
			}
		}
		m.forget(v)
	}
	if err := m.cfg.Mounts.Unmount(target); err != nil {
		return wrap("unpublish", volumeID, err)
	}
	if err := m.cfg.Records.Delete(volumeID); err != nil {
		return wrap("unpublish", volumeID, err)
	}
	return nil
}
