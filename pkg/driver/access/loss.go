package access

import (
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/liveconfig-csi/liveconfig/pkg/api/identity"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/budget"
)

// Denials decides when the denials of one object to one identity count. The zero value has seen
// none.
type Denials struct {
	since time.Time // The first denial since the last other answer; zero for none.
}

// Note takes the answer to a request: nil, or its error. Only denials of a pod can count: nobody
// revokes what the driver reads for itself.
func (d *Denials) Note(id identity.Identity, err error) {
	switch {
	case !apierrors.IsForbidden(err), id == identity.Driver():
		d.since = time.Time{}
	case d.since.IsZero():
		d.since = time.Now()
	}
}

// Count reports whether the denials count: they have been the only answers for the recheck
// interval, and [Authority.Denies], which confirm calls, reports a denial too. If that reports
// that access is allowed, the interval begins again.
func (d *Denials) Count(recheck time.Duration, confirm func() (bool, error)) (bool, error) {
	if d.since.IsZero() || time.Since(d.since) < recheck {
		return false, nil
	}
	denies, err := confirm()
	if err == nil && !denies {
		d.since = time.Time{}
	}
	return denies && err == nil, err
}

// OfDriver returns the error of a request that was denied to an identity. If the driver makes the
// request for a pod, it does so after [Authority.Allow], so the denial is the driver's own and
// must not count as the pod's.
func OfDriver(id identity.Identity, err error) error {
	if id.ByDriver {
		return &driverDeniedError{cause: err}
	}
	return err
}

// driverDeniedError does not unwrap to its cause, which is a denial.
type driverDeniedError struct{ cause error }

func (e *driverDeniedError) Error() string {
	return fmt.Sprintf("the pod may get it, but the driver may not: %v", e.cause)
}

// IsDriverDenied reports whether an error of a request of the identity means that the driver's own
// account lacks a right, which no Role of a pod can give.
func IsDriverDenied(id identity.Identity, err error) bool {
	if review, ok := errors.AsType[*ReviewError](err); ok {
		return apierrors.IsForbidden(review.Cause)
	}
	_, isDenied := errors.AsType[*driverDeniedError](err)
	return isDenied || id == identity.Driver() && apierrors.IsForbidden(err)
}

// Evidence is what the requests of an identity have shown about its access to an object.
type Evidence struct {
	Identity identity.Identity
	WasRead  bool
	// Revoked means that denials count: see [Denials].
	Revoked bool
	// Err is the error of the latest request, if it failed.
	Err error
}

// Use is how a volume uses an object.
type Use struct {
	// IsLive: the volume is published.
	IsLive bool
	// FollowsLoss: the files go with their source.
	FollowsLoss bool
}

// Effect is what follows from an Evidence for the files of a volume.
type Effect string

// The effects.
const (
	// Serve: the files show what was read.
	Serve Effect = "Serve"
	// Refuse: the source counts as one that cannot be read.
	Refuse Effect = "Refuse"
	// Await: the next answer decides, as if there were none yet.
	Await Effect = "Await"
	// Remove: the files go, as if the source were deleted.
	Remove Effect = "Remove"
)

// EffectOn returns what follows for a volume: see the package comment.
func (e Evidence) EffectOn(u Use) Effect {
	switch {
	case e.Revoked && u.FollowsLoss:
		return Remove
	case u.IsLive && e.isDoubted():
		return Await
	case !e.WasRead, !u.IsLive && e.isUnsure():
		return Refuse
	}
	return Serve
}

// isDoubted reports whether all that is known is a denial that may be a mistake.
func (e Evidence) isDoubted() bool {
	return !e.WasRead && !e.Revoked && apierrors.IsForbidden(e.Err) && e.Identity != identity.Driver()
}

// isUnsure reports whether the identity may have lost its access: it was denied, or no request has
// succeeded, perhaps for long. All pods of the namespace may have what the driver reads for itself.
func (e Evidence) isUnsure() bool {
	if apierrors.IsForbidden(e.Err) {
		return true
	}
	_, isTooLarge := errors.AsType[*budget.ExhaustedError](e.Err) // It was read.
	return e.Err != nil && e.Identity != identity.Driver() && !isTooLarge
}
