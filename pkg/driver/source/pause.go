package source

import (
	"context"
	"time"
)

// How long an object is not read that cannot be watched: as the kubelet, which syncs a pod about once a minute, or better.
const (
	longestPoll = 20 * time.Second
	pollJitter  = 0.5
)

// pause is a while in which nothing is asked. It has begun when it is made.
type pause struct{ timer *time.Timer }

func newPause(d time.Duration) *pause { return &pause{timer: time.NewTimer(d)} }

// wait returns when it is over, or the context.
func (p *pause) wait(ctx context.Context) {
	defer p.timer.Stop()
	select {
	case <-p.timer.C:
	case <-ctx.Done():
	}
}

// shorten has the pause end in that time, unless it is over.
func (p *pause) shorten(d time.Duration) {
	if p.timer.Stop() {
		p.timer.Reset(d)
	}
}
