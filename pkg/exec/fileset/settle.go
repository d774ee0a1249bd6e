package fileset

import (
	"context"
	"time"
)

// Settle passes on that something changed, once it has been quiet for a time, and at the latest
// when the first change that was not passed on is as old as most. It returns when the context ends,
// and never waits for the receiver.
func Settle(ctx context.Context, changes <-chan struct{}, settled chan<- struct{}, quiet, most time.Duration) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-changes:
		}
		if !untilQuiet(ctx, changes, quiet, most) {
			return
		}
		select {
		case settled <- struct{}{}:
		default: // It has a place, and what is in it will do.
		}
	}
}

// untilQuiet reports whether it came to an end other than that of the context.
func untilQuiet(ctx context.Context, changes <-chan struct{}, quiet, most time.Duration) bool {
	silence, end := time.NewTimer(quiet), time.NewTimer(most)
	defer silence.Stop()
	defer end.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-silence.C:
			return true
		case <-end.C:
			return true
		case <-changes:
			silence.Reset(quiet)
		}
	}
}
