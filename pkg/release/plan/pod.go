package plan

import "time"

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
	// Containers are those of the pod, of which each has its part of Restarts.
	Containers []Container
	// HasFailed means that all its containers have ended, and will not be started again.
	HasFailed bool
	// IsDisrupted means that it is evicted, or that its node is lost. It proves nothing, whatever
	// its other fields are.
	IsDisrupted bool
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
	// Containers are by name.
	Containers map[string]SeenContainer
}

func (p Pod) seen(isNew bool) *Seen {
	return &Seen{
		IsReady: p.IsReady, Changed: p.Changed, Restarts: p.Restarts, IsNew: isNew, Containers: p.seenContainers(nil),
	}
}

// seenAgain returns what is to be remembered of a pod whose containers have ended at most with exit
// code 0 since it was seen: from then on it must stay Ready, and another end is a crash.
func (p Pod) seenAgain(last *Seen) *Seen {
	return &Seen{
		IsReady: p.IsReady, Changed: p.Changed, Restarts: last.Restarts, IsNew: last.IsNew,
		Containers: p.seenContainers(last.Containers),
	}
}

// runs reports whether the pod may prove something.
func (p Pod) runs() bool { return !p.HasFailed && !p.IsDisrupted }

// isNew reports whether the pod was created in a step, by the API server's clock, which has whole
// seconds.
func (p Pod) isNew(since time.Time) bool { return !p.Created.Before(since.Truncate(time.Second)) }

// failure returns what has happened to a pod since it has the candidate; empty for nothing bad. Its
// earlier state decides. If there is none, the clock of its node decides: a pod that was not Ready
// anyway is not a failure, and a new pod may take its time. A pod whose container has ended with
// exit code 0 may take a pause to be Ready again.
func (p Pod) failure(since, now time.Time, pause time.Duration) string {
	before, ended := p.Before, p.ends(since)
	until := p.restartsUntil(since, pause)
	switch {
	case p.IsDisrupted:
	case before == nil && !p.wasReadyByClock(since.Truncate(time.Second)):
	case p.HasFailed:
		return "has failed"
	case before != nil && !before.IsReady && !before.IsNew:
	case ended.crash != "":
		return ended.crash
	case before != nil && !before.IsReady:
	case !until.IsZero() && now.Before(until), p.IsReady && !ended.exited.IsZero():
	case !until.IsZero():
		return "has ended with exit code 0 and is not Ready again"
	case !p.IsReady:
		return "is no longer Ready"
	case before != nil && !p.Changed.Equal(before.Changed):
		return "was not Ready for a moment"
	}
	return ""
}

// wasReadyByClock reports whether a pod was Ready at a time, as far as its conditions show.
func (p Pod) wasReadyByClock(since time.Time) bool {
	return !p.isNew(since) && (p.IsReady || !p.Changed.Before(since))
}
