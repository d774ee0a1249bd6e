package source

import (
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"

	"github.com/liveconfig-csi/liveconfig/pkg/identity"
	"github.com/liveconfig-csi/liveconfig/pkg/logkeys"
)

// longestDoubt is how long the API server has to deny an object to be believed. It is longer than one takes to start.
const longestDoubt = 15 * time.Second

// doubt is how long the API server has to deny something to be believed.
func (w *watcher) doubt() time.Duration { return min(w.cache.cfg.Recheck, longestDoubt) }

// noteOutcome remembers why the object cannot be kept current, or, for nil, that it can. What was read before stays. A
// cause of the same sort is no change, although its text may differ from try to try; a server that is back and denies
// access is one. What was revoked stays so, and says so, until the server has granted it again: an outage grants nothing.
func (w *watcher) noteOutcome(err error) {
	if err == nil {
		w.unwatched = time.Time{}
	}
	revoked := w.isRevoked(err)
	w.cache.update(w, func(s *Snapshot) bool {
		if s.Revoked && err != nil {
			return false
		}
		polled := s.Polled && err != nil // Otherwise a watch is open.
		changed := !sameSort(s.Err, err) || s.Revoked != revoked || s.Polled != polled
		s.Err, s.Revoked, s.Polled = err, revoked, polled
		return changed
	})
}

// sameSort reports whether two errors, or none, are the same trouble, whatever their texts say.
func sameSort(a, b error) bool {
	return (a == nil) == (b == nil) && isExhausted(a) == isExhausted(b) &&
		apierrors.ReasonForError(a) == apierrors.ReasonForError(b)
}

// log says that the object is not kept current, or that it is again.
func (w *watcher) log(err error) {
	logger := klog.FromContext(w.ctx).WithValues(logkeys.Ref, w.key.Ref, logkeys.Identity, w.key.Identity)
	if err == nil {
		logger.Info("An object is kept current again")
		return
	}
	logger.Error(err, "An object is not kept current")
}

// isRevoked reports whether the outcome, after those before it, means that the object may not be read any more.
func (w *watcher) isRevoked(err error) bool {
	now := time.Now()
	switch {
	case !apierrors.IsForbidden(err), w.key.Identity == identity.Driver():
		w.denied = time.Time{}
		return false
	case w.denied.IsZero():
		w.denied = now
	}
	return now.Sub(w.denied) >= w.doubt()
}

// denial says who is denied: the pod, or the driver, after it was told that the pod may get the object.
func (w *watcher) denial(err error) error {
	if w.key.Identity.ByDriver {
		return &driverDeniedError{cause: err}
	}
	return err
}

// driverDeniedError is no denial of the pod, and must not pass for one. So it does not unwrap to its cause.
type driverDeniedError struct{ cause error }

func (e *driverDeniedError) Error() string {
	return fmt.Sprintf("the pod may get it, but the driver may not (see its ClusterRole): %v", e.cause)
}
