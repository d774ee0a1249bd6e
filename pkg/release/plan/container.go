package plan

import (
	"fmt"
	"time"
)

// Container is what of a container of a pod matters to a release.
type Container struct {
	Name     string
	Restarts int
	// Ended is when it last ended, by the kubelet's clock and in whole seconds; zero if that is not
	// visible.
	Ended time.Time
	// ExitCode is that of its last end.
	ExitCode int
}

// SeenContainer is what was seen of a container at an earlier time.
type SeenContainer struct {
	// Restarts are those without the one that follows HasExited.
	Restarts int
	Ended    time.Time
	// HasExited is whether it has ended with exit code 0 since the pod has the candidate. A program
	// may do that once, to be started with the new configuration.
	HasExited bool
}

// ends is how containers of a pod have ended since the pod has the candidate.
type ends struct {
	// crash describes an end that no edit may cause; empty for none.
	crash string
	// exited is when the last of them ended with exit code 0; zero for none.
	exited time.Time
}

// ends compares the containers with what was seen of them, or with the beginning of the step.
func (p Pod) ends(since time.Time) ends {
	if p.Before == nil {
		return p.endsByClock(since.Truncate(time.Second))
	}
	var e ends
	unexplained := p.Restarts - p.Before.Restarts
	for _, c := range p.Containers {
		last := p.Before.Containers[c.Name]
		restarts := c.Restarts - last.Restarts
		isNew := c.Ended.After(last.Ended)
		switch {
		case !isNew && last.HasExited:
			unexplained -= min(restarts, 1)
		case !isNew: // A restart whose end is not visible is unexplained.
		case c.ExitCode != 0, last.HasExited, restarts > 1:
			e.crash = p.crash(c)
		default:
			e.exited = later(e.exited, c.Ended)
			unexplained -= restarts
		}
	}
	if unexplained > 0 {
		e.crash = p.restarted()
	}
	return e
}

func (p Pod) endsByClock(since time.Time) (e ends) {
	for _, c := range p.Containers {
		switch {
		case c.Ended.Before(since):
		case c.ExitCode != 0:
			e.crash = p.crash(c)
		default:
			e.exited = later(e.exited, c.Ended)
		}
	}
	if e.crash == "" && e.exited.IsZero() && !p.Ended.Before(since) {
		e.crash = p.restarted()
	}
	return e
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func (p Pod) restarted() string { return fmt.Sprintf("has restarted (%d restarts)", p.Restarts) }

// crash describes the end of a container, which may not have been started again yet.
func (p Pod) crash(c Container) string {
	if c.Restarts > 0 {
		return p.restarted()
	}
	return fmt.Sprintf("has the container %s, which ended with exit code %d", c.Name, c.ExitCode)
}

// restartsUntil returns when a pod must be Ready again whose container has ended with exit code 0.
// It is zero for a pod that is Ready, or whose containers have not ended so.
func (p Pod) restartsUntil(since time.Time, pause time.Duration) (until time.Time) {
	exited := p.ends(since).exited
	if p.IsReady || exited.IsZero() || p.Before != nil && !p.Before.IsReady {
		return time.Time{}
	}
	return later(since, exited).Add(pause)
}

// seenContainers returns what is to be remembered of the containers, given what was seen until now.
func (p Pod) seenContainers(before map[string]SeenContainer) map[string]SeenContainer {
	seen := make(map[string]SeenContainer, len(p.Containers))
	for _, c := range p.Containers {
		last, isKnown := before[c.Name]
		switch {
		case !isKnown && before == nil:
			last = SeenContainer{Restarts: c.Restarts, Ended: c.Ended}
		case c.Ended.After(last.Ended):
			last.Ended, last.HasExited = c.Ended, true
		}
		seen[c.Name] = last
	}
	return seen
}
