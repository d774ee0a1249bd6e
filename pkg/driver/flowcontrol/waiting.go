package flowcontrol

import (
	"slices"
	"time"
)

const (
	// fairWindow is the number of requests of which at least one is of each urgency that waits.
	fairWindow = 8
	// remembered is how long an unanswered request does not lose its position in the order.
	// Kubelets publish a volume again within about two minutes.
	remembered = 5 * time.Minute
)

// waiting orders the requests that wait for a slot. The lock of their queue guards it. The zero
// value is empty.
type waiting struct {
	slots    []*slot         // The oldest first.
	passed   [urgencies]int  // How many requests of other urgencies were sent while one of this urgency waited.
	sent     int             // How many requests were sent since no request waited.
	lastSent map[string]int  // The value of sent at the tenant's last request; counted from 1.
	since    map[string]span // The waits that have not ended with an answer, by name.
	swept    time.Time       // When old waits were last removed.
}

// span is when a wait began, and when it was last seen.
type span struct{ from, until time.Time }

func (w *waiting) any() bool { return len(w.slots) > 0 }

// add inserts the slot by the age of its wait.
func (w *waiting) add(s *slot) {
	s.name, s.since = s.asker.Name(), time.Now()
	if s.name != "" {
		s.since = w.remember(s.name, s.since)
	}
	at := len(w.slots)
	for at > 0 && s.since.Before(w.slots[at-1].since) {
		at--
	}
	w.slots = slices.Insert(w.slots, at, s)
}

// remember returns when the wait of that name began: now, unless it continues.
func (w *waiting) remember(name string, now time.Time) time.Time {
	if now.Sub(w.swept) > remembered {
		w.swept = now
		for other, wait := range w.since {
			if now.Sub(wait.until) > remembered {
				delete(w.since, other)
			}
		}
	}
	wait, known := w.since[name]
	if !known || now.Sub(wait.until) > remembered {
		wait.from = now
	}
	if w.since == nil {
		w.since = map[string]span{}
	}
	w.since[name] = span{wait.from, now}
	return wait.from
}

// forget ends the wait, because the request was answered.
func (w *waiting) forget(s *slot) { delete(w.since, s.name) }

// remove removes the slot, if it is there. The wait may go on with another request.
func (w *waiting) remove(s *slot) {
	if wait, known := w.since[s.name]; known {
		w.since[s.name] = span{wait.from, time.Now()}
	}
	if at := slices.Index(w.slots, s); at >= 0 {
		w.slots = slices.Delete(w.slots, at, at+1)
	}
}

// next removes and returns the slot of the next request. There must be one. Of the most urgent
// requests it is the oldest of the tenant whose last request was sent first.
func (w *waiting) next() *slot {
	var firsts [urgencies]*slot
	for _, s := range w.slots {
		first := &firsts[s.asker.Urgency()]
		if *first == nil || w.lastSent[s.asker.Tenant()] < w.lastSent[(*first).asker.Tenant()] {
			*first = s
		}
	}
	s := firsts[w.choose(firsts)]
	w.sent++
	if w.lastSent == nil {
		w.lastSent = map[string]int{}
	}
	w.lastSent[s.asker.Tenant()] = w.sent
	at := slices.Index(w.slots, s)
	w.slots = slices.Delete(w.slots, at, at+1)
	if !w.any() {
		w.sent, w.lastSent = 0, nil
	}
	return s
}

// choose returns the urgency of the next request, given the first slot of each.
func (w *waiting) choose(firsts [urgencies]*slot) (chosen int) {
	chosen = -1
	for u, first := range firsts {
		switch {
		case first == nil:
			w.passed[u] = 0
		case chosen < 0, w.passed[u] >= fairWindow-1:
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
