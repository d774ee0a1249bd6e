package objectwatch_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
)

// answerTimeout is how long a request other than a watch may go without an answer.
const answerTimeout = time.Minute

// TestAListThatIsNeverAnswered is given up and requested again, and delays no other object:
// faults 24 and 30.
func TestAListThatIsNeverAnswered(t *testing.T) {
	bubble(t, func(b *bench) {
		o, others := b.putMap(configMap(web, "1")), b.putMap(configMap(other, "1"))
		b.Swallow(func(verb string, ref api.Ref) bool { return verb == "list" && ref == web })
		defer b.acquire(web)()
		defer b.acquire(other)()
		b.want(other, holding(others))
		pass(answerTimeout - time.Second)
		b.want(web, known{})
		b.WantRequests(web, "list")
		pass(2 * time.Second)
		if got, err := b.seen[web].known(); got.Synced || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("when the time is over: %+v, want that it took too long", got)
		}
		pass(10 * time.Minute)
		if got := len(b.Times("list", web)); got < 8 || got > 12 {
			t.Errorf("%d lists in eleven minutes, want about one a minute", got)
		}
		b.Swallow(nil)
		pass(answerTimeout + longestSilence)
		b.want(web, holding(o))
	})
}

// TestAWatchThatIsNeverAnswered is given up, and the object listed instead, as often as a dead
// watch is replaced: fault 24.
func TestAWatchThatIsNeverAnswered(t *testing.T) {
	bubble(t, func(b *bench) {
		o := b.putMap(configMap(web, "1"))
		b.Swallow(func(verb string, _ api.Ref) bool { return verb == "watch" })
		defer b.acquire(web)()
		pass(shortestTimeout - time.Second)
		b.WantRequests(web, "list", "watch")
		pass(time.Hour - shortestTimeout)
		if got := len(b.Times("list", web)); got < 18 || got > 25 {
			t.Errorf("%d lists in an hour, want one in about three minutes", got)
		}
		b.want(web, holding(o)) // It is listed, so nothing is wrong.
		b.Swallow(nil)
		pass(longestTimeout)
		lists := len(b.Times("list", web))
		pass(25 * time.Minute)
		if got := len(b.Times("list", web)) - lists; got > 4 {
			t.Errorf("%d lists in 25 minutes once watches are answered, want fewer and fewer", got)
		}
	})
}
