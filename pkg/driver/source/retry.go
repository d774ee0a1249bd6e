package source

import (
	"math/rand/v2"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// How long a watcher waits after the API server refused or dropped it: doubling, with jitter.
const (
	firstRetry  = 200 * time.Millisecond
	longestWait = 5 * time.Second
	retryJitter = 1
	// calm is after how long without a failure the delay starts over.
	calm = 2 * time.Minute
	// reopenWithin is how long a watch waits at most that was cut off. An API server that goes away cuts off those of all
	// nodes in one moment, and who stands in for it is not to be asked for all of them at once.
	reopenWithin = time.Second
)

// retry says how long to wait before the next try. The zero value is ready.
type retry struct {
	delay time.Duration // The last one, without jitter.
	until time.Time     // When that is over.
}

// next returns for how long to wait now.
func (r *retry) next() time.Duration {
	now := time.Now()
	r.delay = min(max(firstRetry, 2*r.delay), longestWait)
	if now.Sub(r.until) > calm {
		r.delay = firstRetry
	}
	d := wait.Jitter(r.delay, retryJitter)
	r.until = now.Add(d)
	return d
}

// beforeReopening returns how long to wait before a watch that has ended is opened anew: a while if it was cut off, and no
// time if it has lasted for as long as it was asked to, which each does at a time of its own, or was given up.
func (s *stream) beforeReopening() time.Duration {
	if s.ctx.Err() == nil && time.Since(s.asked) < s.lasts {
		return rand.N(reopenWithin) //nolint:gosec // It is no secret.
	}
	return 0
}
