package rollout

import (
	"slices"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/rollout/workload"
)

// rateLimiter limits how many workloads pass per second, over all namespaces. Workloads wait in the
// line of their namespace, and the lines take turns. It is not safe for concurrent use.
type rateLimiter struct {
	perSecond, burst float64

	// tokens are how many may pass, as of the time at.
	tokens float64
	at     time.Time
	lines  map[string][]workload.Ref
	// order are the namespaces whose lines are not empty, the next one first.
	order []string
	// passed are those that may pass and have not come back yet.
	passed map[workload.Ref]bool
}

func newRateLimiter(perSecond float64) *rateLimiter {
	burst := max(1, float64(int(perSecond)))
	return &rateLimiter{
		perSecond: perSecond, burst: burst, tokens: burst, lines: map[string][]workload.Ref{},
		passed: map[workload.Ref]bool{},
	}
}

// wait returns how long a workload has to wait, if nobody else comes: it asks again after that, and
// until it may pass.
func (l *rateLimiter) wait(ref workload.Ref, now time.Time) time.Duration {
	l.pass(now)
	if l.passed[ref] {
		return 0
	}
	if !slices.Contains(l.lines[ref.Namespace], ref) {
		if len(l.lines[ref.Namespace]) == 0 {
			l.order = append(l.order, ref.Namespace)
		}
		l.lines[ref.Namespace] = append(l.lines[ref.Namespace], ref)
		l.pass(now)
	}
	if l.passed[ref] {
		return 0
	}
	missing := float64(l.before(ref)) + 1 - l.tokens
	return time.Duration(missing / l.perSecond * float64(time.Second))
}

// pass lets pass what may.
func (l *rateLimiter) pass(now time.Time) {
	if !l.at.IsZero() {
		l.tokens += now.Sub(l.at).Seconds() * l.perSecond
	}
	l.at = now
	const rounding = 1e-6 // A rounding error of a floating-point number must not delay a workload that asks in time.
	for l.tokens >= 1-rounding && len(l.order) > 0 {
		namespace := l.order[0]
		line := l.lines[namespace]
		l.passed[line[0]] = true
		l.tokens--
		l.order, l.lines[namespace] = l.order[1:], line[1:]
		if len(line) > 1 {
			l.order = append(l.order, namespace)
		} else {
			delete(l.lines, namespace)
		}
	}
	l.tokens = min(l.burst, l.tokens) // Those that waited all the time have theirs.
}

// before returns how many of all lines pass before a workload that waits.
func (l *rateLimiter) before(ref workload.Ref) int {
	place := slices.Index(l.lines[ref.Namespace], ref)
	before, isBehind := place, false
	for _, namespace := range l.order {
		switch {
		case namespace == ref.Namespace:
			isBehind = true
		case isBehind:
			before += min(len(l.lines[namespace]), place)
		default:
			before += min(len(l.lines[namespace]), place+1)
		}
	}
	return before
}

// forget drops a workload that has passed, or does not want to any more.
func (l *rateLimiter) forget(ref workload.Ref) {
	delete(l.passed, ref)
	place := slices.Index(l.lines[ref.Namespace], ref)
	if place < 0 {
		return
	}
	l.lines[ref.Namespace] = slices.Delete(l.lines[ref.Namespace], place, place+1)
	if len(l.lines[ref.Namespace]) == 0 {
		delete(l.lines, ref.Namespace)
		l.order = slices.DeleteFunc(l.order, func(namespace string) bool { return namespace == ref.Namespace })
	}
}
