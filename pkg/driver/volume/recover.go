package volume

import (
	"context"
	"errors"
	"time"

	"k8s.io/klog/v2"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/daemon/logkeys"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/state"
)

// Recover takes over the volumes that an earlier run of the driver left mounted, and queues each
// for a sync. It drops a record without a mount: the node was restarted, or the driver stopped
// before the volume was visible. If the node cannot say what is mounted, Recover takes the volume
// to be mounted. It reports records that cannot be read, and leaves them and the tokens of their
// volumes.
func (m *Manager) Recover(ctx context.Context) error {
	unreadable := m.cfg.Records.Each(func(r state.Record) {
		end := m.stalls.begin(r.VolumeID)
		err := m.recoverOne(ctx, r)
		end()
		if err != nil {
			klog.FromContext(ctx).Error(err, "A record could not be taken over", logkeys.VolumeID, r.VolumeID)
		}
	})
	if err := m.cfg.Tokens.Retain(m.cfg.Records.Has); err != nil { // Another version may read the records.
		klog.FromContext(ctx).Error(err, "Tokens of volumes that are gone could not be removed")
	}
	m.registry.endRecovery()
	return unreadable
}

func (m *Manager) recoverOne(ctx context.Context, r state.Record) error {
	mounted, err := m.cfg.Mounts.Mounted(r.TargetPath)
	switch {
	case err != nil: // If nothing is mounted there after all, the next repeat publishes the volume again.
		klog.FromContext(ctx).Error(err, "A volume is taken to be mounted", logkeys.VolumeID, r.VolumeID)
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
	v.flags.setPhase(phaseLive)
	return v, mistake
}

// adopt takes over a mounted volume without touching its files, and queues it for a sync. If its
// attributes or sources are refused, the volume stays as it is, and its condition says why. adopt
// fails when another volume is on the target.
func (m *Manager) adopt(ctx context.Context, v *volume, mistake error) error {
	v.frozen = mistake != nil || v.spec.UpdatePolicy == api.UpdateNever
	v.files.tidyAt = time.Now().Add(2 * graceTime) // An earlier run may have replaced files a moment ago.
	if err := m.registry.add(v); err != nil {
		v.memory.account.Close()
		return err
	}
	m.chargeMounted(ctx, v)
	if v.spec.UpdatePolicy == api.UpdateNever {
		m.dropToken(ctx, v.record.VolumeID) // An earlier run may have ended before it dropped the token.
	}
	problem := mistake
	if !v.frozen {
		problem = m.acquire(v)
	}
	if problem != nil {
		m.freeze(ctx, v, problem)
		return nil
	}
	m.queue.add(v)
	return nil
}

// chargeMounted takes the room of a volume that is mounted already.
func (m *Manager) chargeMounted(ctx context.Context, v *volume) {
	usage, err := m.cfg.Mounts.Usage(v.record.TargetPath)
	if err != nil {
		klog.FromContext(ctx).Error(err, "The room of a volume is not known", logkeys.VolumeID, v.record.VolumeID)
	}
	m.admission.chargeUsage(v, usage)
}

// freeze stops the updates of a live volume.
func (m *Manager) freeze(ctx context.Context, v *volume, problem error) {
	klog.FromContext(ctx).Error(problem, "A live volume keeps its content from now on", logkeys.VolumeID, v.record.VolumeID)
	v.mu.Lock()
	defer v.mu.Unlock()
	v.frozen = true
	v.setProblemLocked(problem)
	m.notifier.event(v, ReasonFrozen, "the files stay as they are until the pod is replaced: %v", problem)
}
