package source

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestHowLongItIsUntilTheNextTry: from a fifth of a second, doubling, to five, each with up to as much again. After quiet
// times it starts over, and not before.
func TestHowLongItIsUntilTheNextTry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var r retry
		next := func(name string, least time.Duration) time.Duration {
			t.Helper()
			d := r.next()
			if d < least || d > 2*least {
				t.Errorf("%s: %s, want %s to %s", name, d, least, 2*least)
			}
			<-time.After(d)
			return d
		}
		for range 3 {
			for n := range 8 {
				next("in trouble", min(firstRetry<<n, longestWait))
			}
			<-time.After(2 * time.Minute)
			next("not quiet for long enough", 5*time.Second)
			<-time.After(2*time.Minute + time.Second)
		}
		differ := map[time.Duration]bool{}
		for range 20 {
			r = retry{}
			differ[next("at first", firstRetry)] = true
		}
		if len(differ) < 15 {
			t.Errorf("only %d of 20 differ, want them spread", len(differ))
		}
	})
}
