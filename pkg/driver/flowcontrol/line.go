package flowcontrol

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"
)

const (
	// fewest is how many requests wait for an answer at a time while nothing is known of the server: each of them may have
	// to make a connection.
	fewest = 2
	// more is how many more do after each answer.
	more = 2
	// most is how many do when all is well.
	most = 64
	// mostWary is the maximum soon after trouble. A request keeps its place for a second at most, so
	// this allows 32 requests a second, however slow the server is. A node with 1,000 objects sends
	// about 17 a second for its rechecks, with two requests each every two minutes.
	mostWary = 32
	// wary is how long after trouble that maximum holds. A server that comes back is asked by all its
	// clients for everything.
	wary = 15 * time.Second
	// overdue is after how long without an answer a request makes way for the next one.
	overdue = time.Second
	// lull is after how long without an answer nothing is known of the server any more.
	lull = time.Second
	// lost is how long a request must have been out for its timeout to count as trouble.
	lost = 10 * time.Second
)

// line limits how many requests wait for an answer at a time. Each answer that is no trouble raises the limit, however
// long it took; trouble halves it, and after a lull it starts again from the fewest. So a client that begins with
// many requests does not make a connection for each, and a server that comes back is not asked for everything at once by
// all its clients.
type line struct {
	mu      sync.Mutex // Guards the fields below, and what places have.
	waiting waiting
	taken   int       // How many places are.
	width   int       // How many may be.
	heard   time.Time // When an answer last came.
	trouble time.Time // When the server was last in trouble.
}

// place is one in the line. It is its request's until that is answered or overdue.
type place struct {
	line  *line
	asker Asker
	name  string        // The asker's.
	since time.Time     // When its wait began, perhaps with an earlier request.
	given chan struct{} // Closed when the request may be sent.
	sent  time.Time     // When that was.
	held  bool
	timer *time.Timer // Takes it back.
}

// wait returns when it is the request's turn. The caller must leave the place.
func (l *line) wait(ctx context.Context) (*place, error) {
	p := &place{line: l, asker: askerOf(ctx), given: make(chan struct{})}
	l.mu.Lock()
	if l.taken == 0 && time.Since(l.heard) > lull {
		l.width = fewest
	}
	l.waiting.add(p)
	l.admitLocked()
	l.mu.Unlock()
	select {
	case <-p.given:
		return p, nil
	case <-ctx.Done():
		p.leave()
		return nil, context.Cause(ctx)
	}
}

func (l *line) admitLocked() {
	for l.taken < l.width && l.waiting.any() {
		p := l.waiting.next()
		l.taken++
		p.held, p.sent, p.timer = true, time.Now(), time.AfterFunc(overdue, p.expire)
		close(p.given)
	}
}

// leave gives the place up, whether it was given or not.
func (p *place) leave() {
	p.line.mu.Lock()
	defer p.line.mu.Unlock()
	p.line.waiting.remove(p)
	p.giveBackLocked()
}

// expire takes the place back; the request goes on without it. A late answer is no trouble. But if the server has answered
// no request since this one was sent, nothing is known of the server any more.
func (p *place) expire() {
	l := p.line
	l.mu.Lock()
	defer l.mu.Unlock()
	if p.held && !l.heard.After(p.sent) {
		l.width = fewest
	}
	p.giveBackLocked()
}

func (p *place) giveBackLocked() {
	if p.held {
		p.timer.Stop()
		p.held = false
		p.line.taken--
	}
	p.line.admitLocked() // Also because the answer has made the line wider.
}

// note adapts the limit to the answer, or to the reason why there is none.
func (p *place) note(ctx context.Context, response *http.Response, err error) {
	l := p.line
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if err != nil && ctx.Err() != nil {
		if errors.Is(ctx.Err(), context.DeadlineExceeded) && now.Sub(p.sent) >= lost {
			l.noteTroubleLocked(now)
		}
		return // The caller gave up, which says nothing of the server.
	}
	l.heard = now
	if err != nil || response.StatusCode >= http.StatusInternalServerError || response.StatusCode == http.StatusTooManyRequests {
		l.noteTroubleLocked(now)
		return
	}
	l.waiting.forget(p)
	widest := most
	if now.Sub(l.trouble) <= wary {
		widest = mostWary
	}
	l.width = min(l.width+more, widest)
}

func (l *line) noteTroubleLocked(now time.Time) {
	l.width, l.trouble = max(l.width/2, fewest), now
}
