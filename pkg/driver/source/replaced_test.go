package source_test

import (
	"testing"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/api/identity"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/source"
)

// TestAPolledObjectThatIsReplaced is fault 25: it does not count as gone until the next poll. A
// read may come just between its deletion and its creation, so it is read again soon while its
// absence is new. Then it is polled as before.
func TestAPolledObjectThatIsReplaced(t *testing.T) {
	bubbleOf(t, identity.Of(runner), func(b *bench) {
		b.putMap(configMap(web, "1"))
		b.onlyGets()
		defer b.acquire(web)()
		pass(untilPolled)
		for _, after := range []time.Duration{0, source.AbsenceTime / 4, source.AbsenceTime / 2} {
			pass(10 * time.Minute)
			b.Remove(web)
			b.untilGone(web)
			gone := b.Get(b.key(web)).Changed
			pass(after)
			o := b.putMap(configMap(web, "2"))
			pass(time.Until(gone.Add(source.AbsenceTime)) - time.Millisecond)
			b.want(web, polling(holding(o)))
		}

		b.Remove(web)
		b.untilGone(web)
		pass(source.AbsenceTime)
		before := b.Count("get")
		pass(10 * time.Minute)
		if got := b.Count("get") - before; got < 15 || got > 35 {
			t.Errorf("gets in ten minutes of an object that stays away: %d, want about two a minute", got)
		}
	})
}

// untilGone waits until a poll has found that an object is gone.
func (b *bench) untilGone(ref api.Ref) {
	b.t.Helper()
	const step = 20 * time.Millisecond
	for waited := time.Duration(0); b.Get(b.key(ref)).Found; waited += step {
		if waited > longestPause {
			b.t.Fatalf("%s is not known to be gone after %s", ref, waited)
		}
		pass(step)
		b.settle()
	}
}
