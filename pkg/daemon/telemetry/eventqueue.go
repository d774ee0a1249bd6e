package telemetry

import (
	"slices"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/lru"
)

// The driver sends a burst of Events of each volume and reason, then one a minute, and drops the
// rest. A source that changes all the time must not cost the API server a request for each change.
const (
	eventBurst = 10
	eventRate  = 1.0 / 60 // Per second.
	// eventKeys is how many volumes and reasons have their rates remembered.
	eventKeys = 4096
)

// Normal Events wait, because every node may send one for the same change of an object.
const (
	// normalDelay is the least wait. A random share of normalJitter times as much is added, so that
	// nodes spread their requests. An Event of the same topic replaces one that waits.
	normalDelay  = time.Second
	normalJitter = 9
	// normalInterval is the least time between two of them.
	normalInterval = 100 * time.Millisecond
)

// maxQueued is how many warnings may wait, and how many normal Events.
const maxQueued = 1000

// maxTries is how often the driver tries to send one Event.
const maxTries = 12

// queuedEvent is an Event that waits to be sent.
type queuedEvent struct {
	Event

	written time.Time
	due     time.Time // When a normal Event may be sent.
	tries   int
}

// subject is what an Event is about.
type subject struct{ podUID, volume string }

// topic is a subject and a reason.
type topic struct {
	subject

	reason string
}

func (e *Event) subject() subject { return subject{e.Pod.UID, e.Volume} }
func (e *Event) topic() topic     { return topic{e.subject(), e.Reason} }

// eventQueue holds the Events that wait, and knows when each is due. It is not safe for concurrent
// use.
type eventQueue struct {
	warnings   []*queuedEvent
	normal     []*queuedEvent // One of each topic.
	nextNormal time.Time      // The next normal Event goes out then, at the earliest.
	rates      *lru.Cache     // A *rate.Limiter by topic.
	dropped    int
}

func newEventQueue() *eventQueue { return &eventQueue{rates: lru.New(eventKeys)} }

// add queues an Event, and reports whether the time of the next one may have changed.
func (q *eventQueue) add(e Event, now time.Time) bool {
	added := &queuedEvent{Event: e, written: now}
	if e.Warning {
		return q.addWarning(added)
	}
	if i := slices.IndexFunc(q.normal, func(n *queuedEvent) bool { return n.topic() == added.topic() }); i >= 0 {
		added.due = q.normal[i].due
		q.normal[i] = added
		return false
	}
	if len(q.normal) >= maxQueued {
		q.dropped++
		return false
	}
	added.due = now.Add(wait.Jitter(normalDelay, normalJitter))
	q.normal = append(q.normal, added)
	return len(q.normal) == 1
}

// addWarning queues a warning. Normal Events of the volume that still wait are dropped: sent after
// the warning, they would look like the end of the problem.
func (q *eventQueue) addWarning(added *queuedEvent) bool {
	q.normal = slices.DeleteFunc(q.normal, func(n *queuedEvent) bool { return n.subject() == added.subject() })
	if len(q.warnings) >= maxQueued || !q.allow(added, added.written) {
		q.dropped++
		return false
	}
	q.warnings = append(q.warnings, added)
	return true
}

// next returns the Event to send now, or else the time of the next one. The zero time means that
// the queue is empty. Warnings go first.
func (q *eventQueue) next(now time.Time) (*queuedEvent, time.Time) {
	if len(q.warnings) > 0 {
		first := q.warnings[0]
		q.warnings = slices.Delete(q.warnings, 0, 1)
		return first, now
	}
	for len(q.normal) > 0 {
		at := q.firstDue()
		first := q.normal[at]
		if due := later(first.due, q.nextNormal); due.After(now) {
			return nil, due
		}
		q.normal = slices.Delete(q.normal, at, at+1)
		if first.tries == 0 && !q.allow(first, now) {
			q.dropped++
			continue
		}
		q.nextNormal = now.Add(normalInterval)
		return first, now
	}
	return nil, time.Time{}
}

// putBack queues an Event that could not be sent before all later ones. A normal Event is dropped
// if a later Event describes the volume.
func (q *eventQueue) putBack(e *queuedEvent) {
	e.tries++
	switch {
	case e.Warning:
		q.warnings = slices.Insert(q.warnings, 0, e)
	case slices.ContainsFunc(q.warnings, func(w *queuedEvent) bool { return w.subject() == e.subject() }),
		slices.ContainsFunc(q.normal, func(n *queuedEvent) bool { return n.topic() == e.topic() }):
	default:
		q.normal = append(q.normal, e)
	}
}

// firstDue returns the index of the normal Event that is due first.
func (q *eventQueue) firstDue() int {
	first := 0
	for i, e := range q.normal {
		if e.due.Before(q.normal[first].due) {
			first = i
		}
	}
	return first
}

// allow reports whether the rate of its topic lets an Event go out, and counts the Event.
func (q *eventQueue) allow(e *queuedEvent, now time.Time) bool {
	known, _ := q.rates.Get(e.topic())
	limiter, ok := known.(*rate.Limiter)
	if !ok {
		limiter = rate.NewLimiter(eventRate, eventBurst)
		q.rates.Add(e.topic(), limiter)
	}
	return limiter.AllowN(now, 1)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
