package volume

import (
	"context"
	"time"
)

// joinTimeout is how long a publish waits for a projection that is worked on, before it creates its
// own file system. A sync takes about a millisecond.
const joinTimeout = time.Second

// sharer lets equal volumes have one projection.
type sharer struct {
	isOn      bool
	registry  *registry
	syncer    *syncer
	admission *admission
	notifier  notifier
}

// joinLocked gives a volume that is being published the files of a live projection of the same
// shape, if there is one that has what the volume would get now. Else the volume creates its own,
// which later ones may join. own is the projection of the volume, and is locked: others of its
// shape that are published meanwhile wait until its files are there.
func (s *sharer) joinLocked(ctx context.Context, v *volume, own *projection) (joined bool) {
	if len(own.copies) > 0 {
		return false // An edit of a released source is in some of the volumes first.
	}
	other := s.offer(own)
	if other == own {
		return false
	}
	if other.lockBefore(time.Now().Add(joinTimeout)) {
		defer other.mu.Unlock()
		if s.mountLocked(ctx, v, own, other) {
			s.moveLocked(v, own, other)
			return true
		}
	}
	s.registry.supersede(own)
	return false
}

// offer returns the projection that a volume with the projection own may join, or own if there is
// none. Then later volumes may join that.
func (s *sharer) offer(own *projection) *projection {
	if !s.isOn || !own.canShare() {
		return own
	}
	return s.registry.offer(own)
}

// mountLocked mounts the files of another projection on the target of a volume, if they are what
// the volume would get now. It returns false for whatever is in the way: if that is the target,
// creating a file system fails too, and returns the reason.
func (s *sharer) mountLocked(ctx context.Context, v *volume, own, other *projection) bool {
	_, contents, err := own.lookLocked(s.syncer.sources).plan()
	if err != nil || !other.isLive() {
		return false
	}
	if !other.files.haveLocked(contents) {
		_ = s.syncer.syncLiveLocked(ctx, other) // The projection has the problem, if there is one.
	}
	if !other.files.haveLocked(contents) {
		return false
	}
	view, err := s.syncer.openViewLocked(other, write{})
	if err != nil {
		return false
	}
	from := s.syncer.mountedTargetLocked(other)
	if from == "" {
		return false
	}
	v.mount, err = view.Share(from, v.record.TargetPath)
	return err == nil
}

// moveLocked makes a volume, which is mounted, one of another projection. Its own one ends.
func (s *sharer) moveLocked(v *volume, own, other *projection) {
	other.volumes = append(other.volumes, v)
	v.attributes = nil
	v.account = own.memory.account
	s.admission.chargeJoined(v, own.memory.recordSize)
	v.of.Store(other)
	v.phase.set(live)
	own.endLocked()
	s.registry.removeProjection(own)
	s.notifier.polledLocked(other, other.lookLocked(s.syncer.sources))
}

// chargeJoined takes the room of a volume that shares its files.
func (a *admission) chargeJoined(v *volume, recordSize int) {
	v.account.Force(bytesPerVolume + wholePages(recordSize))
}
