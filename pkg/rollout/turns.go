package rollout

import (
	"slices"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/rollout/workload"
)

// turns lets so many workloads pass per second, over all namespaces. Those that wait do so in the
// line of their namespace, and the lines take turns. It is not for use by several goroutines at
// once.
type turns struct {
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

func newTurns(perSecond float64) *turns {
	burst := max(1, float64(int(perSecond)))
	return &turns{
		perSecond: perSecond, burst: burst, tokens: burst, lines: map[string][]workload.Ref{}, passed: map[workload.Ref]bool{},
	}
}

// wait returns how long a workload has to wait, if nobody else comes: it asks again after that, and
// until it may pass.
func (t *turns) wait(ref workload.Ref, now time.Time) time.Duration {
	t.pass(now)
	if t.passed[ref] {
		return 0
	}
	if !slices.Contains(t.lines[ref.Namespace], ref) {
		if len(t.lines[ref.Namespace]) == 0 {
			t.order = append(t.order, ref.Namespace)
		}
		t.lines[ref.Namespace] = append(t.lines[ref.Namespace], ref)
		t.pass(now)
	}
	if t.passed[ref] {
		return 0
	}
	missing := float64(t.before(ref)) + 1 - t.tokens
	return time.Duration(missing / t.perSecond * float64(time.Second))
}

// pass lets pass what may.
func (t *turns) pass(now time.Time) {
	if !t.at.IsZero() {
		t.tokens += now.Sub(t.at).Seconds() * t.perSecond
	}
	t.at = now
	const rounding = 1e-6 // A rounding error of a floating-point number must not delay a workload that asks in time.
	for t.tokens >= 1-rounding && len(t.order) > 0 {
		namespace := t.order[0]
		line := t.lines[namespace]
		t.passed[line[0]] = true
		t.tokens--
		t.order, t.lines[namespace] = t.order[1:], line[1:]
		if len(line) > 1 {
			t.order = append(t.order, namespace)
		} else {
			delete(t.lines, namespace)
		}
	}
	t.tokens = min(t.burst, t.tokens) // Those that waited all the time have theirs.
}

// before returns how many of all lines pass before a workload that waits.
func (t *turns) before(ref workload.Ref) int {
	place := slices.Index(t.lines[ref.Namespace], ref)
	before, isBehind := place, false
	for _, namespace := range t.order {
		switch {
		case namespace == ref.Namespace:
			isBehind = true
		case isBehind:
			before += min(len(t.lines[namespace]), place)
		default:
			before += min(len(t.lines[namespace]), place+1)
		}
	}
	return before
}

// forget drops a workload that has passed, or does not want to any more.
func (t *turns) forget(ref workload.Ref) {
	delete(t.passed, ref)
	place := slices.Index(t.lines[ref.Namespace], ref)
	if place < 0 {
		return
	}
	t.lines[ref.Namespace] = slices.Delete(t.lines[ref.Namespace], place, place+1)
	if len(t.lines[ref.Namespace]) == 0 {
		delete(t.lines, ref.Namespace)
		t.order = slices.DeleteFunc(t.order, func(namespace string) bool { return namespace == ref.Namespace })
	}
}
