package rollout

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/rollout/workload"
)

// longestQuiet is how many quiet periods a change waits at most: a source that never comes to rest
// must not keep others of the same workload from being rolled out.
const longestQuiet = 10

// mostLate is how much later than at its turn a change is rolled out at most.
const mostLate = time.Second

// pacer decides when a change may be rolled out.
type pacer struct {
	quiet time.Duration

	// mu guards limiter, queued, and resting: the sum of the template that a workload had when
	// there was nothing to do.
	mu      sync.Mutex
	limiter *rateLimiter
	queued  map[workload.Ref]*queuedChange
	resting map[workload.Ref]string
}

// queuedChange is a change that is not rolled out yet.
type queuedChange struct {
	config   string    // The config to roll out, as last seen.
	template string    // The sum of the workload's before the change, or when that was first seen.
	first    time.Time // When it differed from what is rolled out.
	since    time.Time // When config was first seen.
	late     float64   // By which part of the most that it may be late it is late.
}

// newPacer returns a pacer that lets perSecond changes pass, and as many at once.
func newPacer(quiet time.Duration, perSecond float64) *pacer {
	return &pacer{
		quiet: quiet, limiter: newRateLimiter(perSecond),
		queued: map[workload.Ref]*queuedChange{}, resting: map[workload.Ref]string{},
	}
}

// wait returns how long a change has to wait: until its sources have been quiet, and until it is
// its turn. When somebody else has changed the template meanwhile, the two go together and nothing
// is gained by quiet. The edit of a source and the change of a template can be seen in one look,
// hence the template that a workload rested with counts.
func (p *pacer) wait(ref workload.Ref, config string, template string) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	w, known := p.queued[ref]
	if !known {
		w = newQueuedChange(now)
		w.config, w.template = config, template
		if before, ok := p.resting[ref]; ok {
			w.template = before
		}
		p.queued[ref] = w
	}
	if w.config != config {
		w.config, w.since = config, now
	}
	quietAt := w.since.Add(p.quiet)
	if latest := w.first.Add(longestQuiet * p.quiet); quietAt.After(latest) {
		quietAt = latest
	}
	if quietAt.After(now) && w.template == template {
		return quietAt.Sub(now)
	}
	return p.turnOf(ref, w, now)
}

// turn returns how long a change has to wait for its turn alone.
func (p *pacer) turn(ref workload.Ref) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	w, known := p.queued[ref]
	if !known {
		w = newQueuedChange(now)
		p.queued[ref] = w
	}
	return p.turnOf(ref, w, now)
}

func newQueuedChange(now time.Time) *queuedChange {
	late := rand.Float64() //nolint:gosec // It spreads load and keeps no secret.
	return &queuedChange{first: now, since: now, late: late}
}

// turnOf returns how long a change has to wait for its turn. One that has to wait waits a little
// longer, each for another time, so that workloads do not start in step. The last of many is not
// late by more than mostLate.
func (p *pacer) turnOf(ref workload.Ref, w *queuedChange, now time.Time) time.Duration {
	wait := p.limiter.wait(ref, now)
	return wait + time.Duration(w.late*float64(min(wait/10, mostLate)))
}

// rest records the template of a workload that waits for nothing.
func (p *pacer) rest(ref workload.Ref, template string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.queued, ref)
	p.limiter.forget(ref)
	p.resting[ref] = template
}

// forget drops a workload whose state is no longer true.
func (p *pacer) forget(ref workload.Ref) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.queued, ref)
	p.limiter.forget(ref)
	delete(p.resting, ref)
}
