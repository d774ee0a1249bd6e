package source_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/api/identity"
)

// nextRead returns how long it is, at least and at most, from a read to the next one, where the
// watch has been refused for a time and opened never.
func nextRead(refused, recheck time.Duration, reads int) (least, most time.Duration) {
	least = min(max(firstRetry, refused), shortestPause, recheck)
	backoff := min(2*firstRetry<<min(reads, 10), longestSilence) // Of the client library, which doubles as well.
	return least, least*3/2 + backoff
}

// TestHowOftenItIsRead measures an hour of gets, and of lists where those are served. The first
// refusal may be the server's mistake, so that it is tried again at once, then less and less
// often, and in the end as often as it is always.
func TestHowOftenItIsRead(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		verb        string
		listErr     error
		recheck     time.Duration
		least, most int // In an hour.
	}{
		"by gets":            {"get", forbidden(), recheck, 105, 190},
		"by lists":           {"list", nil, recheck, 105, 190},
		"by gets, and soon":  {"get", forbidden(), 5 * time.Second, 200, 720},
		"by lists, and soon": {"list", nil, 5 * time.Second, 200, 720},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			bubbleWith(t, identity.Of(runner), tt.recheck, func(b *bench) {
				b.putMap(configMap(web, "1"))
				b.Answer(tt.listErr, forbidden())
				b.AnswerGets(nil)
				defer b.acquire(web)()
				b.wantChanges(web, 1)
				pass(time.Hour)
				times := b.Times(tt.verb, web)
				for i, at := range times[1:] {
					least, most := nextRead(times[i].Sub(times[0]), tt.recheck, i)
					if got := at.Sub(times[i]); got < least || got > most {
						t.Errorf("between %s %d and the next: %s, want %s to %s", tt.verb, i, got, least, most)
					}
				}
				if got := len(times); got < tt.least || got > tt.most {
					t.Errorf("%ss in an hour: %d, want %d to %d", tt.verb, got, tt.least, tt.most)
				}
				b.wantChanges(web, 1) // That it is polled.
			})
		})
	}
}

// TestAWatchIsRefusedForAMoment, as by a server that starts: the object is not reported as polled,
// since the next watch opens. That happens soon, and as soon each time that the server starts.
func TestAWatchIsRefusedForAMoment(t *testing.T) {
	each(t, identity.Driver(), map[string]error{"with its lists": forbiddenList(), "alone": nil}, func(b *bench, listErr error) {
		o := b.putMap(configMap(web, "0"))
		defer b.acquire(web)()
		b.wantChanges(web, 1)
		for i := range 5 {
			pass(10 * time.Minute) // By which the client library has forgotten the trouble before.
			b.Answer(listErr, forbidden())
			b.AnswerGets(nil)
			b.HangUp()
			pass(5 * time.Second)
			b.want(web, holding(o))
			b.wantWatches(web, 0, 1)
			b.wantChanges(web, 0)
			b.Answer(nil, nil)
			pass(longestDoubt)
			b.wantWatches(web, 1, 1)
			b.wantChanges(web, 0)
			o = b.putMap(configMap(web, fmt.Sprint(i+1)))
			b.wantNow(holding(o), 1)
		}
	})
}

// TestItIsPolledWhenTheDoubtIsOver, and not before: measured from the first refusal since a watch
// was open, each time again.
func TestItIsPolledWhenTheDoubtIsOver(t *testing.T) {
	t.Parallel()
	for _, recheck := range []time.Duration{recheck, 5 * time.Second} {
		t.Run(recheck.String(), func(t *testing.T) {
			bubbleWith(t, identity.Of(runner), recheck, func(b *bench) {
				o := b.putMap(configMap(web, "1"))
				defer b.acquire(web)()
				b.wantChanges(web, 1)
				doubt := min(recheck, longestDoubt)
				for range 3 {
					b.PassInOrder(10 * time.Minute)
					b.Answer(nil, forbidden())
					b.HangUp()
					b.wantAfter(doubt, holding(o), 0)
					b.wantAfter(longestPause, polling(holding(o)), 1)
					pass(time.Hour)
					b.wantChanges(web, 0)
					b.Answer(nil, nil)
					b.PassInOrder(longestPause)
					b.want(web, holding(o))
					b.wantWatches(web, 1, 1)
					b.wantChanges(web, 1)
				}
			})
		})
	}
}

// TestTheRightToListDoesNotOutliveItsAnswer: between two refusals of the watch there is always a
// list, so that one refusal of everything is never taken for one of the watch alone.
func TestTheRightToListDoesNotOutliveItsAnswer(t *testing.T) {
	bubbleOf(t, identity.Of(runner), func(b *bench) {
		o := b.putMap(configMap(web, "1"))
		b.Answer(nil, forbidden())
		defer b.acquire(web)()
		pass(untilPolled)
		b.want(web, polling(holding(o)))
		b.Answer(nil, nil)
		pass(longestPause)
		b.wantWatches(web, 1, 1)
		b.Answer(forbiddenList(), forbidden())
		b.HangUp()
		pass(recheck + 2*longestSilence)
		b.want(web, holding(o).with(forbiddenList()).revoked())
	})
}
