package flowcontrol

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"
)

const (
	// few is how many requests of one lane wait for an answer at the same time while nothing is
	// known about the server: each of them may need a new connection.
	few = 2
	// more is how many more do after each answer.
	more = 2
	// slots is how many do when all is well. With the deadline, this allows 64 requests a second,
	// however slow the server is.
	slots = 64
	// answerDeadline is after how long without an answer a request loses its slot to the next one.
	answerDeadline = time.Second
	// silence is after how long without an answer nothing is known about the server any more.
	silence = 2 * time.Second
)

// queue limits how many requests wait for an answer at the same time. Each answer that is not
// trouble raises the limit, however late it came; trouble halves it, and after a silence it starts
// again from few. So a client that begins with many requests does not make a connection for each,
// and clients whose server refuses requests send fewer.
type queue struct {
	mu       sync.Mutex   // Guards the fields below, and those of the slots.
	waiting  []*slot      // The oldest first.
	taken    [lanes]int   // How many slots are taken.
	width    int          // How many may be, in each lane.
	sent     int          // How many requests were sent since no request waited.
	lastSent map[turn]int // The value of sent at the last request; counted from 1.
	heard    time.Time    // When the last answer came.
}

// turn is the right of a tenant to send the next request in a lane.
type turn struct {
	lane   Lane
	tenant string
}

// slot is the right to wait for an answer. A request has it until it is answered, or until its
// deadline.
type slot struct {
	queue    *queue
	asker    Asker
	given    chan struct{} // Closed when the request may be sent.
	isTaken  bool
	turn     turn        // Of a slot that is taken.
	deadline *time.Timer // Takes the slot back.
}

// wait returns when the request may be sent. The caller must leave the slot.
func (q *queue) wait(ctx context.Context) (*slot, error) {
	s := &slot{queue: q, asker: askerOf(ctx), given: make(chan struct{})}
	q.mu.Lock()
	q.waiting = append(q.waiting, s)
	q.admitLocked()
	q.mu.Unlock()
	select {
	case <-s.given:
		return s, nil
	case <-ctx.Done():
		s.leave()
		return nil, context.Cause(ctx)
	}
}

func (q *queue) admitLocked() {
	if time.Since(q.heard) >= silence {
		q.width = few
	}
	for s := q.nextLocked(); s != nil; s = q.nextLocked() {
		q.waiting = slices.DeleteFunc(q.waiting, func(other *slot) bool { return other == s })
		q.sent++
		if q.lastSent == nil {
			q.lastSent = map[turn]int{}
		}
		q.lastSent[s.turn] = q.sent
		if len(q.waiting) == 0 {
			q.sent, q.lastSent = 0, nil
		}
		q.taken[s.turn.lane]++
		s.isTaken, s.deadline = true, time.AfterFunc(answerDeadline, s.leave)
		close(s.given)
	}
}

// nextLocked returns the request to send next, or nil: of those whose lane has a free slot, the
// oldest of the tenant whose last request was sent first.
func (q *queue) nextLocked() (next *slot) {
	for _, s := range q.waiting {
		t := turn{s.asker.Lane(), s.asker.Tenant()}
		if q.taken[t.lane] < q.width && (next == nil || q.lastSent[t] < q.lastSent[next.turn]) {
			next, s.turn = s, t
		}
	}
	return next
}

// leave returns the slot, whether it was given or not. At the deadline, the request continues
// without it.
func (s *slot) leave() {
	q := s.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	if s.isTaken {
		s.deadline.Stop()
		s.isTaken = false
		q.taken[s.turn.lane]--
	}
	q.waiting = slices.DeleteFunc(q.waiting, func(other *slot) bool { return other == s })
	q.admitLocked() // An answer may also have raised the limit.
}

// note adapts the limit to the answer, or to the error.
func (s *slot) note(ctx context.Context, response *http.Response, err error) {
	if err != nil && ctx.Err() != nil {
		return // The caller gave up; that is not about the server.
	}
	q := s.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	q.heard = time.Now()
	if err != nil || response.StatusCode >= http.StatusInternalServerError ||
		response.StatusCode == http.StatusTooManyRequests {
		q.width = max(q.width/2, few)
		return
	}
	q.width = min(q.width+more, slots)
}
