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
	v = m.newVolume(r)
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
	own := v.lock()
	defer own.unlock()
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
		m.takeOver(ctx, own, mistake)
		return nil
	}
	if err := m.findWriter(ctx, own); err != nil {
		klog.FromContext(ctx).Error(err, "It is not known yet who writes the files of a volume", logkeys.VolumeID,
			v.record.VolumeID)
		own.setProblem(err)
		m.queue.add(own.projection)
	}
	return nil
}

// syncQueued syncs a projection from the queue. If it is not known which projection writes the
// files of a volume that was found mounted, the node is asked again first.
func (m *Manager) syncQueued(ctx context.Context, p *projection) error {
	defer p.freezeIfPanicking(ctx)
	if err := m.findWriterOf(ctx, p); err != nil {
		return err
	}
	return p.sync(ctx)
}

func (m *Manager) findWriterOf(ctx context.Context, p *projection) error {
	if !p.phase.is(found) {
		return nil
	}
	h, isFree := p.lockBefore(time.Now())
	if !isFree { // It may be about to join one whose sync hangs: then a worker must not wait too.
		m.queue.addAt(p, time.Now().Add(firstSyncRetry))
		return nil
	}
	defer h.unlock()
	if !p.phase.is(found) {
		return nil
	}
	return m.findWriter(ctx, h)
}

// findWriter finds out who writes the files of a volume that was found mounted: the projection of
// an earlier volume on the same file system, which the volume joins, or its own. It locks the other
// projection besides: that one never waits for a third. The error means that the node does not
// report it yet. Then nobody writes the files for this volume.
func (m *Manager) findWriter(ctx context.Context, own held) error {
	v := own.volumes[0]
	mount, err := m.cfg.Mounts.Find(v.record.TargetPath)
	if err != nil {
		return err
	}
	v.mount = mount
	for {
		writer := m.registry.claim(mount.FileSystem(), own.projection)
		if writer == own.projection {
			m.takeOver(ctx, own, nil)
			return nil
		}
		hasJoined, problem := m.joinWriter(v, own, writer)
		switch {
		case problem != nil:
			m.takeOver(ctx, own, problem)
			return nil
		case hasJoined:
			return nil
		}
	}
}

// joinWriter makes a volume one of the projection that writes its files, unless the last volume of
// that has just gone. The error is the reason why the files cannot be updated.
func (m *Manager) joinWriter(v *volume, own held, other *projection) (hasJoined bool, problem error) {
	writer := other.lock()
	defer writer.unlock()
	switch {
	case writer.phase.is(gone):
		return false, nil
	case writer.shape.files != own.shape.files:
		return false, call{"adopt", v.record.VolumeID}.refuse(Invalid,
			"its files are those of volume %s, which asks for other ones", writer.id)
	}
	if err := writer.addReaders(own.keys); err != nil {
		return false, err
	}
	writer.take(v, own)
	m.queue.add(other)
	return true, nil
}

// takeOver makes the projection of a volume that was found mounted live. A mistake stops its
// updates. Else new volumes may join it.
func (m *Manager) takeOver(ctx context.Context, own held, mistake error) {
	usage, err := m.cfg.Mounts.Usage(own.volumes[0].record.TargetPath)
	if err != nil {
		klog.FromContext(ctx).Error(err, "The driver cannot measure the memory of a volume", logkeys.VolumeID, own.id)
	}
	own.chargeUsage(usage)
	if mistake == nil && !own.frozen {
		mistake = own.acquire(own.keys)
	}
	own.phase.set(live)
	if mistake != nil {
		own.freeze(ctx, mistake)
		return
	}
	m.offer(own.projection)
	m.queue.add(own.projection)
}

// addReaders makes the identities of these keys readers of the projection too. An earlier run of
// the driver may have chosen others: then all of them must be allowed to read the sources.
func (h held) addReaders(keys []source.Key) error {
	more := slices.DeleteFunc(slices.Clone(keys), func(key source.Key) bool { return slices.Contains(h.keys, key) })
	if len(more) == 0 || h.frozen {
		return nil
	}
	if err := h.acquire(more); err != nil {
		return err
	}
	h.node.registry.addReaders(h, more)
	return nil
}
