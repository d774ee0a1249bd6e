package rollout

import (
	"sync"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/rollout/workload"
)

// progressTracker knows for how long rollouts of StatefulSets and DaemonSets have made no progress.
// Deployments know it themselves.
type progressTracker struct {
	deadline time.Duration

	// mu guards seen.
	mu   sync.Mutex
	seen map[workload.Ref]progress
}

// progress is the furthest that the rollout of one config has come.
type progress struct {
	config string
	counts workload.Counts
	since  time.Time
	done   bool // It has arrived. Later problems of pods are not the rollout's fault.
}

func newProgressTracker(deadline time.Duration) *progressTracker {
	return &progressTracker{deadline: deadline, seen: map[workload.Ref]progress{}}
}

// record returns how long a workload's rollout may still go without progress: zero if that time is
// over, and done if it need not be asked again.
func (p *progressTracker) record(h *cachedWorkload) (left time.Duration, done bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now, current := time.Now(), h.is.Progress
	seen, known := p.seen[h.is.Ref]
	if config := h.Config.String(); !known || seen.config != config {
		seen = progress{config: config, counts: current.Counts, since: now}
	}
	if counts := seen.counts.Max(current.Counts); counts != seen.counts {
		seen.counts, seen.since = counts, now
	}
	seen.done = seen.done || current.Done || current.Settled
	p.seen[h.is.Ref] = seen
	return max(0, p.deadline-now.Sub(seen.since)), seen.done
}

func (p *progressTracker) forget(ref workload.Ref) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.seen, ref)
}

// trackFailure reports whether the rollout of a config is under way and gets nowhere. Where the
// controller has to measure that itself, it looks again when the time is over.
func (c *Controller) trackFailure(h *cachedWorkload) bool {
	p := h.is.Progress
	if !p.Observed || p.OnDelete || !c.changedConfig(h) {
		return false
	}
	if h.is.Kind == workload.Deployment {
		return p.Exceeded
	}
	left, done := c.progress.record(h)
	if done {
		return false
	}
	if left > 0 {
		c.workloads.AddAfter(h.is.Ref, left)
	}
	return left == 0
}

// changedConfig reports whether the workload's newest revision has another config than the one
// before it. Only such a rollout is the controller's, and only where there is an earlier config to
// go back to does it help to hold others back.
func (c *Controller) changedConfig(h *cachedWorkload) bool {
	revisions := c.caches.revisionsOf(h)
	if len(revisions) < 2 {
		return false
	}
	newest, before := revisions[len(revisions)-1], revisions[len(revisions)-2]
	return before.Config != "" && newest.Config != before.Config
}
