package inflow

import (
	"context"
	"net/http"
	"slices"
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
	// overdue is after how long without an answer a request makes way for the next one.
	overdue = time.Second
	// lull is after how long without an answer nothing is known of the server any more.
	lull = time.Second
	// wary is for how long after trouble they stay few. A server that comes back has all that its clients want before it.
	wary = 15 * time.Second
)

// line has requests sent a few at a time, in the order in which they come. It has more of them under way with each answer,
// until nothing was asked for a while or the server is in trouble. So who begins with many does not make a connection for
// each, and a server that comes back is not asked for everything at once by everybody.
type line struct {
	mu      sync.Mutex // Guards the fields below, and what places have.
	waiting []*place   // From the next one on.
	taken   int        // How many places are.
	width   int        // How many may be.
	heard   time.Time  // When an answer last came.
	trouble time.Time  // When the server was last in trouble.
}

// place is one in the line. It is its request's until that is answered or overdue.
type place struct {
	line  *line
	given chan struct{} // Closed when it is.
	held  bool
	timer *time.Timer // Takes it back.
}

// wait returns when it is the request's turn. The caller must leave the place.
func (l *line) wait(ctx context.Context) (*place, error) {
	p := &place{line: l, given: make(chan struct{})}
	l.mu.Lock()
	if l.taken == 0 && time.Since(l.heard) > lull {
		l.width = fewest
	}
	l.waiting = append(l.waiting, p)
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
	for l.taken < l.width && len(l.waiting) > 0 {
		p := l.waiting[0]
		l.waiting = slices.Delete(l.waiting, 0, 1)
		l.taken++
		p.held, p.timer = true, time.AfterFunc(overdue, p.expire)
		close(p.given)
	}
}

// leave gives the place up, whether it was given or not.
func (p *place) leave() {
	l := p.line
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.Index(l.waiting, p); i >= 0 {
		l.waiting = slices.Delete(l.waiting, i, i+1)
	}
	p.giveBackLocked()
}

// expire has the request go on without its place. A server that is slow is in trouble.
func (p *place) expire() {
	p.line.mu.Lock()
	defer p.line.mu.Unlock()
	if p.held {
		p.line.noteTroubleLocked()
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
func (l *line) note(ctx context.Context, response *http.Response, err error) {
	if err != nil && ctx.Err() != nil {
		return // Nobody wanted one.
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.heard = time.Now()
	isWell := err == nil && response.StatusCode < http.StatusInternalServerError && response.StatusCode != http.StatusTooManyRequests
	switch {
	case !isWell:
		l.noteTroubleLocked()
	case time.Since(l.trouble) > wary:
		l.width = min(l.width+more, most)
	}
}

func (l *line) noteTroubleLocked() { l.width, l.trouble = fewest, time.Now() }
