package objectwatch

import (
	"context"
	"time"
)

// Pause is a time without requests for one object. It begins when it is made.
type Pause struct{ timer *time.Timer }

// NewPause returns a pause that lasts for d.
func NewPause(d time.Duration) *Pause { return &Pause{timer: time.NewTimer(d)} }

// Shorten lets the pause end after d from now, unless it is over.
func (p *Pause) Shorten(d time.Duration) {
	if p.timer.Stop() {
		p.timer.Reset(d)
	}
}

// wait returns when the pause or the context is over.
func (p *Pause) wait(ctx context.Context) {
	defer p.timer.Stop()
	select {
	case <-p.timer.C:
	case <-ctx.Done():
	}
}
