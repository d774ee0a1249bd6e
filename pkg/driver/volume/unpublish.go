package volume

import (
	"context"
	"errors"

	"k8s.io/klog/v2"

	"github.com/liveconfig-csi/liveconfig/pkg/daemon/logkeys"
	"github.com/liveconfig-csi/liveconfig/pkg/files/volumefs"
)

// Unpublish removes the volume from its target path, and the path itself. It succeeds if the volume
// is not known or not there any more. It also succeeds for a target where no volume can be, such as
// a symbolic link, and leaves that target as it is.
func (m *Manager) Unpublish(ctx context.Context, volumeID, target string) error {
	if _, busy := m.calls.LoadOrStore(volumeID, nil); busy {
		return call{"unpublish", volumeID}.refuse(Busy, "another call for volume %s is under way", volumeID)
	}
	defer m.calls.Delete(volumeID)
	defer m.stalls.begin(volumeID)()
	v := m.registry.get(volumeID)
	if err := m.teardown(ctx, v, volumeID, target); err != nil {
		return call{"unpublish", volumeID}.wrap(err)
	}
	if v != nil {
		klog.FromContext(ctx).V(2).Info("Unpublished", logkeys.Pod, v.record.Pod)
	}
	return nil
}

// teardown unmounts a volume, which may be nil if it is not known, and removes what is stored of
// it.
func (m *Manager) teardown(ctx context.Context, v *volume, volumeID, target string) error {
	if v != nil {
		if recorded := v.record.TargetPath; recorded != target {
			if err := m.unmount(ctx, volumeID, recorded); err != nil {
				return err // The volume stays known, so that the next try finds this mount as well.
			}
		}
		m.forget(v)
	}
	if !m.registry.isTargetOfAnother(target, volumeID) {
		if err := m.unmount(ctx, volumeID, target); err != nil {
			return err
		}
	}
	return errors.Join(m.cfg.Tokens.Drop(volumeID), m.cfg.Records.Delete(volumeID))
}

// unmount takes the volume away from a target. It succeeds without doing anything for a target
// behind a link or outside the kubelet's directory, where no volume can be: the kubelet repeats a
// failed unpublish forever, and its pod cannot end.
func (m *Manager) unmount(ctx context.Context, volumeID, target string) error {
	err := m.cfg.Mounts.Unmount(target)
	if _, link := errors.AsType[*volumefs.SymlinkError](err); link || errors.Is(err, volumefs.ErrOutside) {
		klog.FromContext(ctx).Error(err, "The driver unmounted nothing; an earlier volume stays mounted",
			logkeys.VolumeID, volumeID)
		return nil
	}
	return err
}

// forget takes a volume out of its projection, and gives its memory back. It waits for a sync that
// is under way; a later sync does nothing for the volume.
func (m *Manager) forget(v *volume) {
	h := v.lock()
	v.phase.set(gone)
	isLast := h.remove(v)
	if isLast {
		h.end()
	}
	h.unlock()
	if v.account != nil {
		v.account.Close()
	}
	m.registry.remove(v)
	if isLast {
		h.memory.account.Close()
		m.registry.removeProjection(h.projection)
	}
}
