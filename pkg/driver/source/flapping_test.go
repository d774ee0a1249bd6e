package source_test

import (
	"testing"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/driver/source"
)

// TestAWatchThatStaysRefused: lists are served and watches are not, so the object is read by lists.
// Its changes are seen, and nothing else is reported: an error that came and went with each
// attempt would be an Event each time.
func TestAWatchThatStaysRefused(t *testing.T) {
	bubble(t, func(b *bench) {
		o := b.putMap(configMap(web, "1"))
		b.Answer(nil, forbidden())
		defer b.acquire(web)()
		pass(untilPolled)
		b.wantChanges(web, 2) // The object, and that it is polled.
		b.onChange(func(key source.Key) {
			if s := b.Get(key); s.Err != nil || !s.Polled {
				b.t.Errorf("a change to %v, polled: %t; want it polled and well", s.Err, s.Polled)
			}
		})
		b.wantAfter(time.Hour, polling(holding(o)), 0)

		o = b.putMap(configMap(web, "2"))
		b.wantAfter(longestPause, polling(holding(o)), 1)

		b.Remove(web)
		b.wantAfter(longestPause, polling(known{Synced: true}), 1)
		if got := b.Count("get"); got != 0 {
			t.Errorf("gets = %d, want none where lists are served", got)
		}

		b.onChange(func(source.Key) {})
		b.Answer(nil, nil)
		b.wantAfter(longestPause, known{Synced: true}, 1)
		b.wantWatches(web, 1, 1)
	})
}

// TestAWatchThatFailsIsTrouble where it is not forbidden, however well lists are served.
func TestAWatchThatFailsIsTrouble(t *testing.T) {
	bubble(t, func(b *bench) {
		o := b.putMap(configMap(web, "1"))
		b.Answer(nil, unavailable())
		defer b.acquire(web)()
		b.wantChanges(web, 2)
		troubled := holding(o).with(unavailable())
		b.want(web, troubled)
		b.wantAfter(10*time.Minute, troubled, 0)
		b.Answer(nil, nil)
		pass(longestSilence)
		b.want(web, holding(o))
		b.wantWatches(web, 1, 1)
	})
}
