package inflow

import (
	"slices"
	"time"
)

const (
	// turnsEach is in how many turns there is at least one for each urgency that waits.
	turnsEach = 8
	// memory is for how long it is remembered since when somebody has waited who gave up. Kubelets publish a volume again
	// within about two minutes.
	memory = 5 * time.Minute
)

// waiting is who waits for a place. Its line's lock guards it. The zero value is nobody.
type waiting struct {
	places []*place        // From who has waited for longest on.
	passed [urgencies]int  // How many turns of others each urgency has waited for.
	turn   int             // How many turns there were since nobody waited.
	turns  map[string]int  // The last one of each tenant; counted from 1.
	since  map[string]span // How long who has not been answered has been waiting, by name.
	swept  time.Time       // When those were last forgotten who have not come back.
}

// span is since when somebody has waited, and until when, as far as is known.
type span struct{ from, until time.Time }

func (w *waiting) any() bool { return len(w.places) > 0 }

// add puts the place where its asker was before, or else at the end.
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

// remember returns since when who has that name has waited: from now on, unless it has come back.
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

// forget is called when who had the place was answered.
func (w *waiting) forget(p *place) { delete(w.since, p.name) }

// remove takes the place away, if it is there. Who had it has not been answered, and may come back.
func (w *waiting) remove(p *place) {
	if s, known := w.since[p.name]; known {
		w.since[p.name] = span{s.from, time.Now()}
	}
	if at := slices.Index(w.places, p); at >= 0 {
		w.places = slices.Delete(w.places, at, at+1)
	}
}

// next takes the place whose turn it is. Somebody must wait.
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

// choose returns the urgency whose turn it is, of those of which somebody waits.
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
