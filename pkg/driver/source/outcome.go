package source

import (
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"

	"github.com/liveconfig-csi/liveconfig/pkg/daemon/logkeys"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/identity"
)

// longestDoubt is how long watches have to be refused, while the object may be read, until somebody is told that it is polled.
const longestDoubt = 15 * time.Second

func (w *watcher) doubt() time.Duration { return min(w.cache.cfg.Recheck, longestDoubt) }

// noteOutcome remembers why the object cannot be kept current, or, for nil, that it can. What was read before stays. A
// cause of the same sort is no change, although its text may differ from try to try; a server that is back and denies
// access is one. What was revoked stays so, and says so, until the server has granted it again: an outage grants nothing.
func (w *watcher) noteOutcome(err error) {
	if err == nil {
		w.unwatched = time.Time{}
	}
	revoked := w.believe(err)
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

// believe takes an outcome into account, and reports whether the object counts from now on as one that may not be read any
// more: denials were all that was heard for as long as a recheck, and the API server is sure.
func (w *watcher) believe(err error) bool {
	switch {
	case !apierrors.IsForbidden(err), w.key.Identity == identity.Driver():
		w.denied = time.Time{}
		return false
	case w.denied.IsZero():
		w.denied = time.Now()
	}
	if time.Since(w.denied) < w.cache.cfg.Recheck || w.cache.Get(w.key).Revoked {
		return false
	}
	return w.confirm()
}

// confirm asks whether the API server is sure of its denials. One that allows the object after all has not denied it.
func (w *watcher) confirm() bool {
	ctx, cancel := w.beginRequest()
	defer cancel()
	denies, err := w.cache.cfg.Denies(ctx, w.key.Identity, w.key.Ref)
	switch {
	case err != nil:
		klog.FromContext(w.ctx).V(4).Info("It is not known yet whether access is lost", logkeys.Ref, w.key.Ref,
			logkeys.Identity, w.key.Identity, logkeys.Reason, err)
		return false
	case !denies:
		w.denied = time.Time{}
	}
	return denies
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
