package source

import (
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"

	"github.com/liveconfig-csi/liveconfig/pkg/daemon/logkeys"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/access"
)

// longestDoubt is how long watches have to be refused, while the object may be read, until somebody is told that it is polled.
const longestDoubt = 15 * time.Second

func (r *reader) doubt() time.Duration { return min(r.cache.cfg.Recheck, longestDoubt) }

// Outcome implements [objectwatch.Handler]: it records why the object cannot be kept current, or, for nil, that it can. What was read before stays. A
// cause of the same sort is no change, although its text may differ from try to try; a server that is back and denies
// access is one. What was revoked stays so, and says so, until the server has granted it again: an outage grants nothing.
func (r *reader) Outcome(err error) {
	revoked := r.believe(err)
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

// sameSort reports whether two errors, or none, are the same trouble, whatever their texts say.
func sameSort(a, b error) bool {
	return (a == nil) == (b == nil) && isExhausted(a) == isExhausted(b) &&
		apierrors.ReasonForError(a) == apierrors.ReasonForError(b)
}

// log says that the object is not kept current, or that it is again.
func (r *reader) log(err error) {
	logger := klog.FromContext(r.cache.ctx).WithValues(logkeys.Ref, r.key.Ref, logkeys.Identity, r.key.Identity)
	if err == nil {
		logger.Info("An object is kept current again")
		return
	}
	logger.Error(err, "An object is not kept current")
}

// believe takes an outcome into account, and reports whether the object counts from now on as one that may not be read any
// more: denials were all that was heard for as long as a recheck, and the API server is sure.
func (r *reader) believe(err error) bool {
	switch {
	case !apierrors.IsForbidden(err), r.key.Identity == access.Driver():
		r.denied = time.Time{}
		return false
	case r.denied.IsZero():
		r.denied = time.Now()
	}
	if time.Since(r.denied) < r.cache.cfg.Recheck || r.cache.Get(r.key).Revoked {
		return false
	}
	return r.confirm()
}

// confirm asks whether the API server is sure of its denials. One that allows the object after all has not denied it.
func (r *reader) confirm() bool {
	ctx, cancel := r.follower.BeginRequest()
	defer cancel()
	denies, err := r.cache.cfg.Denies(ctx, r.key.Identity, r.key.Ref)
	switch {
	case err != nil:
		klog.FromContext(r.cache.ctx).V(4).Info("It is not known yet whether access is lost", logkeys.Ref, r.key.Ref,
			logkeys.Identity, r.key.Identity, logkeys.Reason, err)
		return false
	case !denies:
		r.denied = time.Time{}
	}
	return denies
}

// Denied implements [objectwatch.Poller]. The driver's own request is made only after the pod was
// allowed to get the object, so its denial is not the pod's.
func (r *reader) Denied(err error) error {
	if r.key.Identity.ByDriver {
		return &driverDeniedError{cause: err}
	}
	return err
}

// driverDeniedError is no denial of the pod, and must not pass for one. So it does not unwrap to its cause.
type driverDeniedError struct{ cause error }

func (e *driverDeniedError) Error() string {
	return fmt.Sprintf("the pod may get it, but the driver may not (see its ClusterRole): %v", e.cause)
}
