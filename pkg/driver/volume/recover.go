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
	v.projection().phase.set(found)
	return v, mistake
}

// adopt takes over a mounted volume without touching its files, and queues it for a sync. If its
// attributes or sources are refused, the volume stays as it is, and its condition has the reason.
// adopt fails when another volume is on the target.
func (m *Manager) adopt(ctx context.Context, v *volume, mistake error) error {
	own := v.projection()
	own.mu.Lock()
	defer own.mu.Unlock()
	own.frozen = mistake != nil || own.spec.UpdatePolicy == api.UpdateNever
	own.files.tidyAt = time.Now().Add(2 * graceTime) // An earlier run may have replaced files a moment ago.
	if err := m.registry.add(v); err != nil {
		own.memory.account.Close()
		return err
	}
	if own.spec.UpdatePolicy == api.UpdateNever {
		m.dropToken(ctx, v.record.VolumeID) // An earlier run may have ended before it dropped the token.
	}
	if mistake != nil || !own.canShare() {
		m.takeOverLocked(ctx, own, mistake)
		return nil
	}
	if err := m.findWriterLocked(ctx, own); err != nil {
		klog.FromContext(ctx).Error(err, "It is not known yet who writes the files of a volume", logkeys.VolumeID, v.record.VolumeID)
		own.setProblemLocked(err)
		m.queue.add(own)
	}
	return nil
}

// syncQueued syncs a projection from the queue. If it is not known which projection writes the
// files of a volume that was found mounted, the node is asked again first.
func (m *Manager) syncQueued(ctx context.Context, p *projection) error {
	if err := m.findWriter(ctx, p); err != nil {
		return err
	}
	return m.syncer.syncLive(ctx, p)
}

func (m *Manager) findWriter(ctx context.Context, p *projection) error {
	switch {
	case !p.phase.is(found):
		return nil
	case !p.mu.TryLock(): // It may be about to join one whose sync hangs: then a worker must not wait too.
		m.queue.addAt(p, time.Now().Add(firstSyncRetry))
		return nil
	}
	defer p.mu.Unlock()
	if !p.phase.is(found) {
		return nil
	}
	return m.findWriterLocked(ctx, p)
}

// findWriterLocked finds out who writes the files of a volume that was found mounted: the
// projection of an earlier volume on the same file system, which the volume joins, or its own. It
// locks the other projection besides: that one never waits for a third. The error means that the
// node does not report it yet. Then nobody writes the files for this volume.
func (m *Manager) findWriterLocked(ctx context.Context, own *projection) error {
	v := own.volumes[0]
	mount, err := m.cfg.Mounts.Find(v.record.TargetPath)
	if err != nil {
		return err
	}
	v.mount = mount
	for {
		writer := m.registry.claim(mount.FileSystem(), own)
		if writer == own {
			m.takeOverLocked(ctx, own, nil)
			return nil
		}
		hasJoined, problem := m.joinWriterLocked(v, own, writer)
		switch {
		case problem != nil:
			m.takeOverLocked(ctx, own, problem)
			return nil
		case hasJoined:
			return nil
		}
	}
}

// joinWriterLocked makes a volume one of the projection that writes its files, unless the last
// volume of that has just gone. The error is the reason why the files cannot be updated.
func (m *Manager) joinWriterLocked(v *volume, own, writer *projection) (hasJoined bool, problem error) {
	writer.mu.Lock()
	defer writer.mu.Unlock()
	switch {
	case writer.phase.is(gone):
		return false, nil
	case writer.shape.files != own.shape.files:
		return false, call{"adopt", v.record.VolumeID}.refuse(Invalid,
			"its files are those of volume %s, which asks for other ones", writer.id)
	}
	if err := m.addReadersLocked(writer, own.keys); err != nil {
		return false, err
	}
	m.sharer.moveLocked(v, own, writer)
	m.queue.add(writer)
	return true, nil
}

// takeOverLocked makes the projection of a volume that was found mounted live. A mistake stops its
// updates. Else new volumes may join it.
func (m *Manager) takeOverLocked(ctx context.Context, own *projection, mistake error) {
	m.chargeMounted(ctx, own.volumes[0], own)
	if mistake == nil && !own.frozen {
		mistake = m.acquireLocked(own, own.keys)
	}
	own.phase.set(live)
	if mistake != nil {
		m.freezeLocked(ctx, own, mistake)
		return
	}
	m.sharer.offer(own)
	m.queue.add(own)
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
