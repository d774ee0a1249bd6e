package objectwatch

import (
	"math/rand/v2"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/wait"
)

// The delay after an error doubles, with jitter.
const (
	firstRequestRetry   = 200 * time.Millisecond
	longestRequestRetry = 5 * time.Second
	retryJitter         = 1
	pollJitter          = 0.5
	// calm is the time without an error after which the delay starts over.
	calm = 2 * time.Minute
	// reopenWithin is the longest wait before a watch that was cut off is opened again. An API
	// server that goes away cuts off the watches of all nodes at once, and the next server must
	// not be asked for all of them at once.
	reopenWithin = time.Second
)

// retry computes the delay before the next attempt. The zero value is ready.
type retry struct {
	delay time.Duration // The last one, without jitter.
	until time.Time     // When that ended.
}

// next returns the delay from now.
func (r *retry) next() time.Duration {
	now := time.Now()
	r.delay = min(max(firstRequestRetry, 2*r.delay), longestRequestRetry)
	if now.Sub(r.until) > calm {
		r.delay = firstRequestRetry
	}
	d := wait.Jitter(r.delay, retryJitter)
	r.until = now.Add(d)
	return d
}

// beforeReopening returns the delay before a watch that has ended is opened again: zero if it has
// lasted for the time that it was requested for, or was given up, and more if it was cut off.
func (s *stream) beforeReopening() time.Duration {
	if s.ctx.Err() == nil && time.Since(s.asked) < s.timeout {
		return rand.N(reopenWithin) //nolint:gosec // It is not a secret.
	}
	return 0
}

// isExpired reports whether a request failed only because of the version that it named: the server
// has forgotten that version, or has not reached it since it was restored.
func isExpired(o metav1.ListOptions, err error) bool {
	return o.ResourceVersion != latestVersion && (apierrors.IsResourceExpired(err) || apierrors.IsGone(err) ||
		apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge))
}

// isHangup reports whether an error is the end of a connection.
func isHangup(err error) bool {
	return utilnet.IsProbableEOF(err) || utilnet.IsHTTP2ConnectionLost(err) || utilnet.IsTimeout(err)
}
