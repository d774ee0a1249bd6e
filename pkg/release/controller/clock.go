package controller

import (
	"sync"
	"time"
)

// clock notices jumps of the wall clock against the time that has really passed, as after a pause
// of the machine. It is ready to use.
type clock struct {
	mu       sync.Mutex // Guards the fields below.
	last     time.Time
	passed   time.Duration
	jumpedAt time.Time
}

// mostDrift is how far both may be apart between two looks.
const mostDrift = time.Second

// look returns when the clock was last seen to have jumped; zero for never. passed is how long the
// process has run.
func (c *clock) look(now time.Time, passed time.Duration) (jumpedAt time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now = now.Round(0) // Without the time that has really passed.
	if drift := now.Sub(c.last) - (passed - c.passed); !c.last.IsZero() && drift.Abs() > mostDrift {
		c.jumpedAt = now
	}
	c.last, c.passed = now, passed
	return c.jumpedAt
}
