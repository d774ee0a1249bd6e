package telemetry

import (
	"slices"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/lru"
)

// Of each reason, a volume's Events are sent up to a burst, then at a slow rate; the rest is dropped. A busy source must
// not cost the API server a request for each of its changes.
const (
	eventBurst = 10
	eventRate  = 1.0 / 60 // Per second.
	// eventKeys is how many volumes and reasons have their rates remembered.
	eventKeys = 4096
)

// How news is held back.
const (
	// newsDelay is how long it waits, and up to nine times as much on top by chance: a change of an object that all nodes read
	// must not cost the API server an Event of each within one second. What comes meanwhile of the same topic takes its place.
	newsDelay  = time.Second
	newsJitter = 9
	// newsPause is from one to the next.
	newsPause = 100 * time.Millisecond
)

// mostWaiting is how many warnings may wait, and how much news.
const mostWaiting = 1000

// mostTries is how often an Event is sent that does not reach the API server.
const mostTries = 12

// letter is an Event that is to be sent.
type letter struct {
	Event

	written time.Time
	due     time.Time // When news may go out.
	tries   int
}

// subject is what an Event is about.
type subject struct{ podUID, volume string }

// topic is of which sort an Event is about what.
type topic struct {
	subject

	reason string
}

func (e *Event) subject() subject { return subject{e.Pod.UID, e.Volume} }
func (e *Event) topic() topic     { return topic{e.subject(), e.Reason} }

// outbox holds what is to be sent, and says when. It is not safe for concurrent use.
type outbox struct {
	warnings []*letter
	news     []*letter  // One of each topic.
	nextNews time.Time  // Not before then.
	rates    *lru.Cache // A *rate.Limiter by topic.
	dropped  int
}

func newOutbox() *outbox { return &outbox{rates: lru.New(eventKeys)} }

// add takes an Event in, and reports whether who waits for one has to look again.
func (o *outbox) add(e Event, now time.Time) bool {
	l := &letter{Event: e, written: now}
	if e.Warning {
		return o.warn(l)
	}
	if i := slices.IndexFunc(o.news, func(n *letter) bool { return n.topic() == l.topic() }); i >= 0 {
		l.due = o.news[i].due
		o.news[i] = l
		return false
	}
	if len(o.news) >= mostWaiting {
		o.dropped++
		return false
	}
	l.due = now.Add(wait.Jitter(newsDelay, newsJitter))
	o.news = append(o.news, l)
	return len(o.news) == 1
}

// warn takes a warning in. News about the volume that has not gone out would look like the end of the trouble: it goes.
func (o *outbox) warn(l *letter) bool {
	o.news = slices.DeleteFunc(o.news, func(n *letter) bool { return n.subject() == l.subject() })
	if len(o.warnings) >= mostWaiting || o.isTooMuch(l, l.written) {
		o.dropped++
		return false
	}
	o.warnings = append(o.warnings, l)
	return true
}

// next returns what to send now, or else when there will be something; the zero time means that nothing waits. No news
// goes before a warning.
func (o *outbox) next(now time.Time) (*letter, time.Time) {
	if len(o.warnings) > 0 {
		first := o.warnings[0]
		o.warnings = slices.Delete(o.warnings, 0, 1)
		return first, now
	}
	for len(o.news) > 0 {
		first := o.firstNews()
		l := o.news[first]
		if at := later(l.due, o.nextNews); at.After(now) {
			return nil, at
		}
		o.news = slices.Delete(o.news, first, first+1)
		if l.tries == 0 && o.isTooMuch(l, now) {
			o.dropped++
			continue
		}
		o.nextNews = now.Add(newsPause)
		return l, now
	}
	return nil, time.Time{}
}

// putBack keeps what could not be sent, before all that came later, unless that says better how things are.
func (o *outbox) putBack(l *letter) {
	l.tries++
	switch {
	case l.Warning:
		o.warnings = slices.Insert(o.warnings, 0, l)
	case slices.ContainsFunc(o.warnings, func(w *letter) bool { return w.subject() == l.subject() }),
		slices.ContainsFunc(o.news, func(n *letter) bool { return n.topic() == l.topic() }):
	default:
		o.news = append(o.news, l)
	}
}

// firstNews returns which news is due first.
func (o *outbox) firstNews() int {
	first := 0
	for i, l := range o.news {
		if l.due.Before(o.news[first].due) {
			first = i
		}
	}
	return first
}

// isTooMuch reports whether a letter is over the rate of its topic, which it counts towards.
func (o *outbox) isTooMuch(l *letter, now time.Time) bool {
	known, _ := o.rates.Get(l.topic())
	limiter, ok := known.(*rate.Limiter)
	if !ok {
		limiter = rate.NewLimiter(eventRate, eventBurst)
		o.rates.Add(l.topic(), limiter)
	}
	return !limiter.AllowN(now, 1)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
