package source

import (
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
