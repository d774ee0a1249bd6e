package source

import (
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/liveconfig-csi/liveconfig/pkg/daemon/logkeys"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/access"
)

// longestDoubt is how long watches must be refused, while the object may be read, before it is
// reported as polled.
const longestDoubt = 15 * time.Second

func (r *reader) doubt() time.Duration { return min(r.cache.cfg.Recheck, longestDoubt) }

// Outcome implements [objectwatch.Handler]: it records why the object cannot be kept current, or,
// for nil, that it can. The content stays. Another error of the same sort is not a change,
// although the text may differ; a server that is back and denies access is one. Revoked access
// stays revoked until the server grants it again: an outage grants nothing.
func (r *reader) Outcome(err error) {
	revoked := r.noteDenial(err)
	r.update(func(s *Snapshot) bool {
		if s.Revoked && err != nil {
			return false
		}
		polled := s.Polled && err != nil // Otherwise a watch is open.
		changed := !sameSort(s.Err, err) || s.Revoked != revoked || s.Polled != polled
		s.Err, s.Revoked, s.Polled = err, revoked, polled
		return changed
	})
}

// sameSort reports whether two errors, or none, are the same trouble with perhaps different texts.
func sameSort(a, b error) bool {
	return (a == nil) == (b == nil) && isExhausted(a) == isExhausted(b) &&
		apierrors.ReasonForError(a) == apierrors.ReasonForError(b)
}

// log logs that the object is not kept current, or that it is again.
func (r *reader) log(err error) {
	logger := r.cache.logger.WithValues(logkeys.Ref, r.key.Ref, logkeys.Identity, r.key.Identity)
	if err == nil {
		logger.Info("The driver follows an object again")
		return
	}
	logger.Error(err, "The driver cannot follow an object")
}

// noteDenial takes an outcome into account, and reports whether access counts as revoked from now
// on.
func (r *reader) noteDenial(err error) (isRevoked bool) {
	r.denials.Note(r.key.Identity, err)
	if r.cache.Look(r.key)[0].Revoked {
		return false
	}
	counts, err := r.denials.Count(r.cache.cfg.Recheck, r.confirm)
	if err != nil {
		r.cache.logger.V(4).Info("It is not known yet whether access is lost", logkeys.Ref, r.key.Ref,
			logkeys.Identity, r.key.Identity, logkeys.Reason, err)
	}
	return counts
}

func (r *reader) confirm() (bool, error) {
	ctx, cancel := r.follower.BeginRequest()
	defer cancel()
	return r.cache.cfg.Denies(ctx, r.key.Identity, r.key.Ref)
}

// Denied implements [objectwatch.Poller].
func (r *reader) Denied(err error) error { return access.OfDriver(r.key.Identity, err) }
