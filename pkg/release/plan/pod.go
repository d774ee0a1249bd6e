package plan

import (
	"fmt"
	"time"
)

// Pod is what of a pod matters to a release.
type Pod struct {
	Name, UID string
	// Node is where it runs.
	Node string
	// Objects are the names of the objects of the unit that it uses.
	Objects []string
	// Created is when it was created, by the API server's clock.
	Created time.Time
	// IsReady is its condition, and Changed when that last changed, by the kubelet's clock and in
	// whole seconds.
	IsReady bool
	Changed time.Time
	// Restarts counts those of all containers, and Ended is when a container last ended that was
	// started again.
	Restarts int
	Ended    time.Time
	// HasFailed means that all its containers have ended, and will not be started again.
	HasFailed bool
	// SharesWith is equal for pods that may have one set of files; empty for a pod that has its
	// own.
	SharesWith string
	// Before is what was seen of the pod when it got the candidate; nil for nothing, if the
	// controller has started since.
	Before *Seen
	// Proof is what the driver of its node has last reported; nil for nothing.
	Proof *Proof
}

// Seen is what was seen of a pod at an earlier time.
type Seen struct {
	IsReady  bool
	Changed  time.Time
	Restarts int
	// IsNew is whether the pod has had the candidate from its first moment.
	IsNew bool
}

func (p Pod) seen(isNew bool) *Seen {
	return &Seen{IsReady: p.IsReady, Changed: p.Changed, Restarts: p.Restarts, IsNew: isNew}
}

// isNew reports whether the pod was created in a step, by the API server's clock, which has whole
// seconds.
func (p Pod) isNew(since time.Time) bool { return !p.Created.Before(since.Truncate(time.Second)) }

// failure returns what has happened to a pod since it has the candidate; empty for nothing bad. Its
// earlier state decides. If there is none, the clock of its node decides: a pod that was not Ready
// anyway is not a failure, and a new pod may take its time.
func (p Pod) failure(since time.Time) string {
	before := p.Before
	switch {
	case before == nil:
		return p.failureByClock(since.Truncate(time.Second))
	case p.HasFailed:
		return "has failed"
	case p.Restarts > before.Restarts && (before.IsReady || before.IsNew):
		return fmt.Sprintf("has restarted (%d restarts)", p.Restarts)
	case before.IsReady && !p.IsReady:
		return "is no longer Ready"
	case before.IsReady && !p.Changed.Equal(before.Changed):
		return "was not Ready for a moment"
	}
	return ""
}

func (p Pod) failureByClock(since time.Time) string {
	wasReady := p.IsReady || !p.Changed.Before(since)
	switch {
	case p.isNew(since) || !wasReady:
	case p.HasFailed:
		return "has failed"
	case !p.Ended.Before(since):
		return fmt.Sprintf("has restarted (%d restarts)", p.Restarts)
	case !p.IsReady:
		return "is no longer Ready"
	}
	return ""
}
