package volume

import (
	"context"
	"errors"
	"slices"
	"time"

	"k8s.io/klog/v2"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/daemon/logkeys"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/source"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/state"
	"github.com/liveconfig-csi/liveconfig/pkg/files/volumefs"
)

// Recover takes over the volumes that an earlier run of the driver left mounted, and queues each
// for a sync. It drops a record without a mount: the node was restarted, or the driver stopped
// before the volume was visible. If the node does not report what is mounted, Recover takes the
// volume to be mounted. It reports records that cannot be read, and leaves them and the tokens of
// their volumes.
func (m *Manager) Recover(ctx context.Context) error {
	unreadable := m.cfg.EarlierRecords.Each(func(r state.Record) {
		end := m.stalls.begin(r.VolumeID)
		err := m.recoverOne(ctx, r)
		end()
		if err != nil {
			klog.FromContext(ctx).Error(err, "The driver cannot take over a volume", logkeys.VolumeID, r.VolumeID)
		}
	})
	if err := m.cfg.Tokens.Retain(m.cfg.EarlierRecords.Has); err != nil { // Another version may read the records.
		klog.FromContext(ctx).Error(err, "The driver cannot remove tokens of volumes that no longer exist")
	}
	m.registry.endRecovery()
	return unreadable
}

func (m *Manager) recoverOne(ctx context.Context, r state.Record) error {
	mounted, err := m.cfg.Mounts.Mounted(r.TargetPath)
	switch {
	case err != nil: // If nothing is mounted there after all, the next repeat publishes the volume again.
		klog.FromContext(ctx).Error(err, "The driver assumes that a volume is mounted", logkeys.VolumeID, r.VolumeID)
	case !mounted:
		return errors.Join(m.cfg.Tokens.Drop(r.VolumeID), m.cfg.Records.Delete(r.VolumeID))
	}
	v, mistake := m.mountedVolume(r)
	return m.adopt(ctx, v, mistake)
}

// mountedVolume returns the live volume of a record, and what this version of the driver refuses in
// its attributes.
func (m *Manager) mountedVolume(r state.Record) (v *volume, mistake error) {
	v = newVolume(r, m.admission.newMemory(r))
	mistake = m.parse(v)
	v.attributes = nil
	v.phase.set(live)
	v.projection().phase.set(live)
	return v, mistake
}

// adopt takes over a mounted volume without touching its files, and queues it for a sync. If its
// attributes or sources are refused, the volume stays as it is, and its condition has the reason.
// adopt fails when another volume is on the target.
func (m *Manager) adopt(ctx context.Context, v *volume, mistake error) error {
	p := v.projection()
	p.frozen = mistake != nil || p.spec.UpdatePolicy == api.UpdateNever
	p.files.tidyAt = time.Now().Add(2 * graceTime) // An earlier run may have replaced files a moment ago.
	if err := m.registry.add(v); err != nil {
		p.memory.account.Close()
		return err
	}
	if p.spec.UpdatePolicy == api.UpdateNever {
		m.dropToken(ctx, v.record.VolumeID) // An earlier run may have ended before it dropped the token.
	}
	if mistake == nil && p.canShare() {
		isJoined, problem := m.adoptShared(v, p)
		if isJoined {
			return nil
		}
		mistake = problem
	}
	m.chargeMounted(ctx, v, p)
	if mistake == nil && !p.frozen {
		mistake = m.acquire(p)
	}
	if mistake != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		m.freezeLocked(ctx, p, mistake)
		return nil
	}
	m.queue.add(p)
	return nil
}

// adoptShared makes a volume that was found mounted one of the projection that has its files, if an
// earlier volume is on the same file system. Else the volume's own projection is the first one
// there, which new volumes may join. The error is why the files cannot be updated.
func (m *Manager) adoptShared(v *volume, own *projection) (isJoined bool, problem error) {
	other := m.withSameFiles(v)
	if other == nil {
		m.sharer.offer(own)
		return false, nil
	}
	other.mu.Lock()
	defer other.mu.Unlock()
	switch {
	case !other.isLive(): // Its last volume has just gone.
		return false, nil
	case other.shape.files != own.shape.files:
		return false, call{"adopt", v.record.VolumeID}.refuse(Invalid,
			"its files are those of volume %s, which asks for other ones", other.id)
	}
	if err := m.addReadersLocked(other, own.keys); err != nil {
		return false, err
	}
	own.mu.Lock()
	defer own.mu.Unlock()
	m.sharer.moveLocked(v, own, other)
	m.queue.add(other)
	return true, nil
}

// withSameFiles returns the projection of another volume that has the same file system; nil for
// none, or if the node does not report mounts.
func (m *Manager) withSameFiles(v *volume) *projection {
	mount, err := m.cfg.Mounts.Find(v.record.TargetPath)
	if err != nil {
		return nil
	}
	p := v.lock()
	v.mount = mount
	p.mu.Unlock()
	for _, other := range m.registry.all() {
		if other != v && other.isLive() && mount.SharesFilesWith(m.mountOf(other)) {
			return other.projection()
		}
	}
	return nil
}

// mountOf returns the mount of a live volume; zero if it is not known.
func (m *Manager) mountOf(v *volume) volumefs.Mount {
	defer v.lock().mu.Unlock()
	return v.mount
}

// addReadersLocked makes the identities of these keys readers of the projection too. An earlier run
// of the driver may have chosen others: then all of them must be allowed to read the sources.
func (m *Manager) addReadersLocked(p *projection, keys []source.Key) error {
	more := slices.DeleteFunc(slices.Clone(keys), func(key source.Key) bool { return slices.Contains(p.keys, key) })
	if len(more) == 0 || p.frozen {
		return nil
	}
	if err := m.acquireLocked(p, more); err != nil {
		return err
	}
	m.registry.addReadersLocked(p, more)
	return nil
}

// chargeMounted takes the room of a volume that is mounted already.
func (m *Manager) chargeMounted(ctx context.Context, v *volume, p *projection) {
	usage, err := m.cfg.Mounts.Usage(v.record.TargetPath)
	if err != nil {
		klog.FromContext(ctx).Error(err, "The driver cannot measure the memory of a volume", logkeys.VolumeID, v.record.VolumeID)
	}
	m.admission.chargeUsage(p, usage)
}

// freezeLocked stops the updates of live volumes.
func (m *Manager) freezeLocked(ctx context.Context, p *projection, problem error) {
	p.frozen = true
	p.setProblemLocked(problem)
	for _, v := range p.volumes {
		klog.FromContext(ctx).Error(problem, "The driver no longer updates a live volume", logkeys.VolumeID, v.record.VolumeID)
		m.notifier.event(v, ReasonFrozen, "the files stay as they are until the pod is replaced: %v", problem)
	}
}
