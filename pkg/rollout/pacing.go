package rollout

import (
	"math/rand/v2"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/liveconfig-csi/liveconfig/pkg/rollout/workload"
)

// longestQuiet is how many quiet periods a change waits at most: a source that never comes to rest must not keep others
// of the same workload from being rolled out.
const longestQuiet = 10

// pacer says when a change may be rolled out.
type pacer struct {
	quiet time.Duration
	limit *rate.Limiter

	// mu guards waiting, and resting: the sum of the template that a workload had when there was nothing to do.
	mu      sync.Mutex
	waiting map[workload.Ref]*waiting
	resting map[workload.Ref]string
}

// waiting is a change that is not rolled out yet.
type waiting struct {
	config   string    // What is to be rolled out, as last seen.
	template string    // The sum of the workload's before the change, or when that was first seen.
	first    time.Time // When it differed from what is rolled out.
	since    time.Time // When config was first seen.
	turn     time.Time // When the rate allows it; zero until it asked.
}

// newPacer returns a pacer that lets perSecond changes pass, and as many at once.
func newPacer(quiet time.Duration, perSecond float64) *pacer {
	burst := max(1, int(perSecond))
	return &pacer{
		quiet: quiet, limit: rate.NewLimiter(rate.Limit(perSecond), burst),
		waiting: map[workload.Ref]*waiting{}, resting: map[workload.Ref]string{},
	}
}

// wait returns how long a change has to wait: until its sources have been quiet, and until it is its turn. When
// somebody else has changed the template meanwhile, the two go together and nothing is gained by quiet. The edit of a
// source and the change of a template can be seen in one look, hence the template that a workload rested with counts.
func (p *pacer) wait(ref workload.Ref, config string, template string) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	w, known := p.waiting[ref]
	if !known {
		w = &waiting{config: config, template: template, first: now, since: now}
		if before, ok := p.resting[ref]; ok {
			w.template = before
		}
		p.waiting[ref] = w
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
	return p.turnOf(w, now)
}

// turn returns how long a change has to wait for its turn alone.
func (p *pacer) turn(ref workload.Ref) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	w, known := p.waiting[ref]
	if !known {
		w = &waiting{first: now, since: now}
		p.waiting[ref] = w
	}
	return p.turnOf(w, now)
}

// turnOf takes a turn for a change that has none. One that has to wait for it waits a little longer, each for another
// time, so that workloads do not start in step.
func (p *pacer) turnOf(w *waiting, now time.Time) time.Duration {
	if w.turn.IsZero() {
		delay := p.limit.ReserveN(now, 1).DelayFrom(now)
		if delay > 0 {
			delay += rand.N(delay/10 + time.Millisecond) //nolint:gosec // It spreads load and keeps no secret.
		}
		w.turn = now.Add(delay)
	}
	return max(0, w.turn.Sub(now))
}

// rest notes that a workload has nothing to wait for, and with which template.
func (p *pacer) rest(ref workload.Ref, template string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.waiting, ref)
	p.resting[ref] = template
}

// forget drops a workload: what is known of it is no longer true.
func (p *pacer) forget(ref workload.Ref) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.waiting, ref)
	delete(p.resting, ref)
}
