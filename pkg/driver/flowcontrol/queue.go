package flowcontrol

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"
)

const (
	// fewest is how many requests wait for an answer at the same time while nothing is known
	// about the server: each of them may need a new connection.
	fewest = 2
	// more is how many more do after each answer.
	more = 2
	// most is how many do when all is well.
	most = 64
	// mostWary is the maximum soon after trouble. A request has its slot for a second at most, so
	// this allows 32 requests a second, however slow the server is. A node with 1,000 objects sends
	// about 17 a second for its rechecks, with two requests each every two minutes.
	mostWary = 32
	// wary is how long after trouble that maximum applies. All clients ask a server that comes
	// back for everything.
	wary = 15 * time.Second
	// answerDeadline is after how long without an answer a request loses its slot to the next one.
	answerDeadline = time.Second
	// lull is after how long without an answer nothing is known about the server any more.
	lull = time.Second
	// lost is how long a request must have been sent for its timeout to count as trouble.
	lost = 10 * time.Second
)

// queue limits how many requests wait for an answer at the same time. Each answer that is not
// trouble raises the limit, however late it came; trouble halves it, and after a lull it starts
// again from the fewest. So a client that begins with many requests does not make a connection
// for each, and not all clients ask a server that comes back for everything at once.
type queue struct {
	mu      sync.Mutex // Guards the fields below, and those of the slots.
	waiting waiting
	taken   int       // How many slots are taken.
	width   int       // How many may be.
	heard   time.Time // When the last answer came.
	trouble time.Time // When the server was last in trouble.
}

// slot is the right to wait for an answer. A request has it until it is answered, or until its
// deadline.
type slot struct {
	queue    *queue
	asker    Asker
	name     string        // The asker's.
	since    time.Time     // When the wait began, perhaps with an earlier request.
	given    chan struct{} // Closed when the request may be sent.
	sent     time.Time     // When that was.
	isTaken  bool
	deadline *time.Timer // Takes the slot back.
}

// wait returns when the request may be sent. The caller must leave the slot.
func (q *queue) wait(ctx context.Context) (*slot, error) {
	s := &slot{queue: q, asker: askerOf(ctx), given: make(chan struct{})}
	q.mu.Lock()
	if q.taken == 0 && time.Since(q.heard) > lull {
		q.width = fewest
	}
	q.waiting.add(s)
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
	for q.taken < q.width && q.waiting.any() {
		s := q.waiting.next()
		q.taken++
		s.isTaken, s.sent, s.deadline = true, time.Now(), time.AfterFunc(answerDeadline, s.expire)
		close(s.given)
	}
}

// leave returns the slot, whether it was given or not.
func (s *slot) leave() {
	s.queue.mu.Lock()
	defer s.queue.mu.Unlock()
	s.queue.waiting.remove(s)
	s.returnLocked()
}

// expire takes the slot back; the request continues without it. A late answer is not trouble. But
// if the server has answered no request since this one was sent, nothing is known about it any
// more.
func (s *slot) expire() {
	q := s.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	if s.isTaken && !q.heard.After(s.sent) {
		q.width = fewest
	}
	s.returnLocked()
}

func (s *slot) returnLocked() {
	if s.isTaken {
		s.deadline.Stop()
		s.isTaken = false
		s.queue.taken--
	}
	s.queue.admitLocked() // The answer may also have raised the limit.
}

// note adapts the limit to the answer, or to the error.
func (s *slot) note(ctx context.Context, response *http.Response, err error) {
	q := s.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	if err != nil && ctx.Err() != nil {
		if errors.Is(ctx.Err(), context.DeadlineExceeded) && now.Sub(s.sent) >= lost {
			q.noteTroubleLocked(now)
		}
		return // The caller gave up; that is not about the server.
	}
	q.heard = now
	if err != nil || response.StatusCode >= http.StatusInternalServerError || response.StatusCode == http.StatusTooManyRequests {
		q.noteTroubleLocked(now)
		return
	}
	q.waiting.forget(s)
	widest := most
	if now.Sub(q.trouble) <= wary {
		widest = mostWary
	}
	q.width = min(q.width+more, widest)
}

func (q *queue) noteTroubleLocked(now time.Time) {
	q.width, q.trouble = max(q.width/2, fewest), now
}
