package rollout

import (
	"sync"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/rollout/workload"
)

// patience knows for how long rollouts of StatefulSets and DaemonSets have made no progress. Deployments know it
// themselves.
type patience struct {
	deadline time.Duration

	// mu guards seen.
	mu   sync.Mutex
	seen map[workload.Ref]motion
}

// motion is the furthest that the rollout of one config has come.
type motion struct {
	config string
	counts workload.Counts
	since  time.Time
	done   bool // It has arrived. What happens to pods after that is not the rollout's fault.
}

func newPatience(deadline time.Duration) *patience {
	return &patience{deadline: deadline, seen: map[workload.Ref]motion{}}
}

// left returns how long a workload's rollout may still go without progress: none if that time is over, and done if it
// need not be asked again.
func (p *patience) left(h *held) (left time.Duration, done bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now, progress := time.Now(), h.is.Progress
	seen, known := p.seen[h.is.Ref]
	if config := h.Config.String(); !known || seen.config != config {
		seen = motion{config: config, counts: progress.Counts, since: now}
	}
	if counts := seen.counts.Max(progress.Counts); counts != seen.counts {
		seen.counts, seen.since = counts, now
	}
	seen.done = seen.done || progress.Done || progress.Settled
	p.seen[h.is.Ref] = seen
	return max(0, p.deadline-now.Sub(seen.since)), seen.done
}

func (p *patience) forget(ref workload.Ref) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.seen, ref)
}

// isFailing reports whether the rollout of a config is under way and gets nowhere. Where the controller has to measure
// that itself, it looks again when the time is over.
func (c *Controller) isFailing(h *held) bool {
	p := h.is.Progress
	if !p.Observed || p.Patient || !c.changedConfig(h) {
		return false
	}
	if h.is.Kind == workload.Deployment {
		return p.Exceeded
	}
	left, done := c.patience.left(h)
	if done {
		return false
	}
	if left > 0 {
		c.workloads.AddAfter(h.is.Ref, left)
	}
	return left == 0
}

// changedConfig reports whether the workload's newest revision has another config than the one before it. Only such a
// rollout is the controller's, and only where there is an earlier config to go back to does it help to hold others back.
func (c *Controller) changedConfig(h *held) bool {
	revisions := c.caches.revisionsOf(h)
	if len(revisions) < 2 {
		return false
	}
	newest, before := revisions[len(revisions)-1], revisions[len(revisions)-2]
	return before.Config != "" && newest.Config != before.Config
}
