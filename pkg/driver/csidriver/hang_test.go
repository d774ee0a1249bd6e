package csidriver_test

import (
	"testing"
	"time"
)

// deaden makes the open watches bring nothing any more, and leaves them open.
func (a *apiServer) deaden() {
	a.mu.Lock()
	defer a.mu.Unlock()
	clear(a.watches)
}

// TestAListThatIsNeverAnsweredIsGivenUp, and asked for again: fault 24.
func TestAListThatIsNeverAnsweredIsGivenUp(t *testing.T) {
	bubble(t, func(b *bench) {
		b.put(new(true))
		release := b.hold()
		b.start()
		pass(10 * time.Minute)
		if got := b.count("list"); got < 8 || got > 11 {
			t.Errorf("%d lists in ten minutes, want about one a minute", got)
		}
		release()
		pass(longestSilence)
		b.want(right)
	})
}

// TestAWatchThatDiesSilentlyIsReplaced when the API server should have ended it: fault 24.
func TestAWatchThatDiesSilentlyIsReplaced(t *testing.T) {
	bubble(t, func(b *bench) {
		b.put(new(true))
		b.start()
		b.want(right)
		b.deaden()
		b.put(new(false))
		pass(30 * time.Minute)
		b.want(right)
		pass(31 * time.Minute)
		b.want(wrong)
		if got := b.count("watch"); got != 2 {
			t.Errorf("%d watches, want the one replaced once", got)
		}
	})
}
