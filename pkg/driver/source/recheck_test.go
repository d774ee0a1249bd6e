package source_test

import (
	"slices"
	"testing"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/api/identity"
)

// TestHowLongAWatchStaysOpen opens many. The watches of a reader that may lose access are opened
// again about every recheck, and not all of a node at once; the driver's own stay open.
func TestHowLongAWatchStaysOpen(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		id          identity.Identity
		least, most time.Duration
	}{
		"the driver's own":   {identity.Driver(), 30 * time.Minute, time.Hour},
		"a pod's":            {identity.Of(runner), recheck * 2 / 3, recheck * 4 / 3},
		"on behalf of a pod": {behalf, recheck * 2 / 3, recheck * 4 / 3},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			bubbleOf(t, tt.id, func(b *bench) {
				defer b.acquire(web)()
				const opened = 200
				for range opened {
					b.settle()
					pass(2 * time.Second)
					b.Bookmark(web)
					b.HangUp()
				}
				b.settle()
				var seconds []int64
				for _, r := range b.All() {
					if r.Verb != "watch" {
						continue
					}
					if r.Opts.TimeoutSeconds == nil {
						t.Fatal("a watch that is never to be closed")
					}
					seconds = append(seconds, *r.Opts.TimeoutSeconds)
				}
				slices.Sort(seconds)
				least, most := int64(tt.least.Seconds()), int64(tt.most.Seconds())
				if len(seconds) <= opened || seconds[0] < least || seconds[len(seconds)-1] > most {
					t.Errorf("%d watches are open for %d to %d s, want over %d for %d to %d s",
						len(seconds), seconds[0], seconds[len(seconds)-1], opened, least, most)
				}
				if spread := seconds[len(seconds)-1] - seconds[0]; spread < (most-least)*3/4 {
					t.Errorf("they differ by %d s, want them spread over nearly %d", spread, most-least)
				}
			})
		})
	}
}
