package volume

import (
	"context"
	"time"
)

// joinTimeout is how long a publish waits for a projection that is worked on, before it creates its
// own file system. A sync takes about a millisecond.
const joinTimeout = time.Second

// join gives a volume that is being published the files of a live projection of the same shape, if
// there is one that has what the volume would get now. Else the volume creates its own, which later
// ones may join. own is the projection of the volume: others of its shape that are published
// meanwhile wait until its files are there.
func (m *Manager) join(ctx context.Context, v *volume, own held) (joined bool) {
	if len(own.copies) > 0 {
		return false // An edit of a released source is in some of the volumes first.
	}
	other := m.offer(own.projection)
	if other == own.projection {
		return false
	}
	if h, isFree := other.lockBefore(time.Now().Add(joinTimeout)); isFree {
		defer h.unlock()
		if h.share(ctx, v, own) {
			h.take(v, own)
			return true
		}
	}
	m.registry.supersede(own.projection)
	return false
}

// offer returns the projection that a volume with the projection own may join, or own if there is
// none. Then later volumes may join that.
func (m *Manager) offer(own *projection) *projection {
	if !m.cfg.ShareVolumes || !own.canShare() {
		return own
	}
	return m.registry.offer(own)
}

// share mounts the files of the projection on the target of a volume with the projection own, if
// they are what that would get. It returns false for whatever is in the way: if that is the target,
// creating a file system fails too, and returns the reason.
func (h held) share(ctx context.Context, v *volume, own held) bool {
	_, contents, giveBack, err := own.plan(own.look())
	giveBack()
	if err != nil || !h.isLive() {
		return false
	}
	if !h.files.have(contents) {
		_ = h.syncLive(ctx) // The projection has the problem, if there is one.
	}
	if !h.files.have(contents) {
		return false
	}
	view, err := h.openView(write{})
	if err != nil {
		return false
	}
	from := h.mountedTarget()
	if from == "" {
		return false
	}
	v.mount, err = view.Share(from, v.record.TargetPath)
	return err == nil
}

// take makes a volume, which is mounted, one of the projection. Its own one ends.
func (h held) take(v *volume, own held) {
	h.volumes = append(h.volumes, v)
	v.attributes = nil
	v.account = own.memory.account
	v.chargeJoined(own.memory.recordSize)
	v.of.Store(h.projection)
	v.phase.set(live)
	own.end()
	h.node.registry.removeProjection(own.projection)
	h.reportPolled(h.look().polled())
	h.reportLeftOut()
	if h.problem != nil { // The next sync reports it to the new volume too.
		h.node.queue.add(h.projection)
	}
}
