package flowcontrol

import (
	"slices"
	"time"
)

const (
	// turnsEach is the number of requests of which at least one is of each urgency that waits.
	turnsEach = 8
	// memory is how long the place of an unanswered request in the order is remembered. Kubelets
	// publish a volume again within about two minutes.
	memory = 5 * time.Minute
)

// waiting holds the requests that wait for a place. The lock of their line guards it. The zero value
// is empty.
type waiting struct {
	places []*place        // The oldest first.
	passed [urgencies]int  // How many requests of other urgencies were sent while one of this urgency waited.
	turn   int             // How many requests were sent since no request waited.
	turns  map[string]int  // The turn in which a request of the tenant was last sent; counted from 1.
	since  map[string]span // The waits that have not ended with an answer, by name.
	swept  time.Time       // When old waits were last removed.
}

// span is when a wait began, and when it was last seen.
type span struct{ from, until time.Time }

func (w *waiting) any() bool { return len(w.places) > 0 }

// add inserts the place by the age of its wait.
func (w *waiting) add(p *place) {
	p.name, p.since = p.asker.Name(), time.Now()
	if p.name != "" {
		p.since = w.remember(p.name, p.since)
	}
	at := len(w.places)
	for at > 0 && p.since.Before(w.places[at-1].since) {
		at--
	}
	w.places = slices.Insert(w.places, at, p)
}

// remember returns when the wait of that name began: now, unless it goes on.
func (w *waiting) remember(name string, now time.Time) time.Time {
	if now.Sub(w.swept) > memory {
		w.swept = now
		for other, s := range w.since {
			if now.Sub(s.until) > memory {
				delete(w.since, other)
			}
		}
	}
	s, known := w.since[name]
	if !known || now.Sub(s.until) > memory {
		s.from = now
	}
	if w.since == nil {
		w.since = map[string]span{}
	}
	w.since[name] = span{s.from, now}
	return s.from
}

// forget ends the wait, because the request was answered.
func (w *waiting) forget(p *place) { delete(w.since, p.name) }

// remove removes the place, if it is there. The wait may go on with another request.
func (w *waiting) remove(p *place) {
	if s, known := w.since[p.name]; known {
		w.since[p.name] = span{s.from, time.Now()}
	}
	if at := slices.Index(w.places, p); at >= 0 {
		w.places = slices.Delete(w.places, at, at+1)
	}
}

// next removes and returns the place whose turn it is. There must be one. Of the most urgent places
// it is the oldest of the tenant whose last turn is longest ago.
func (w *waiting) next() *place {
	var firsts [urgencies]*place
	for _, p := range w.places {
		first := &firsts[p.asker.Urgency()]
		if *first == nil || w.turns[p.asker.Tenant()] < w.turns[(*first).asker.Tenant()] {
			*first = p
		}
	}
	p := firsts[w.choose(firsts)]
	w.turn++
	if w.turns == nil {
		w.turns = map[string]int{}
	}
	w.turns[p.asker.Tenant()] = w.turn
	at := slices.Index(w.places, p)
	w.places = slices.Delete(w.places, at, at+1)
	if !w.any() {
		w.turn, w.turns = 0, nil
	}
	return p
}

// choose returns the urgency whose turn it is, given the first place of each.
func (w *waiting) choose(firsts [urgencies]*place) (chosen int) {
	chosen = -1
	for u, first := range firsts {
		switch {
		case first == nil:
			w.passed[u] = 0
		case chosen < 0, w.passed[u] >= turnsEach-1:
			chosen = u
		}
	}
	for u, first := range firsts {
		if first != nil && u != chosen {
			w.passed[u]++
		}
	}
	w.passed[chosen] = 0
	return chosen
}
