package inflow

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
	// mostWary is how many do at most soon after trouble. Within a second each makes way, so that a node which has a
	// thousand objects looked at again every two minutes, with two requests each, is not behind with them.
	mostWary = 32
	// wary is how soon that is. A server that comes back has all that its clients want before it.
	wary = 15 * time.Second
	// overdue is after how long without an answer a request makes way for the next one.
	overdue = time.Second
	// lull is after how long without an answer nothing is known of the server any more.
	lull = time.Second
	// lost is after how long a request that ends without an answer says that the server is in trouble.
	lost = 10 * time.Second
)

// line has requests sent a few at a time, the most urgent first. It has more of them under way with each answer, however
// long that took, until nothing was asked for a while or the server is in trouble; trouble halves them. So who begins with
// many does not make a connection for each, and a server that comes back is not asked for everything at once by everybody.
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
	since time.Time     // Since when its asker waits, perhaps with an earlier request.
	given chan struct{} // Closed when it is.
	sent  time.Time     // When it was.
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

// expire has the request go on without its place. That an answer takes long is no trouble, but of a server that has not
// answered anything since, nothing is known any more.
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

// note takes the answer, or why there is none, for what it says of the server.
func (p *place) note(ctx context.Context, response *http.Response, err error) {
	l := p.line
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if err != nil && ctx.Err() != nil {
		if errors.Is(ctx.Err(), context.DeadlineExceeded) && now.Sub(p.sent) >= lost {
			l.noteTroubleLocked(now)
		}
		return // Otherwise nobody wanted one.
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
