package source_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/objectwatch/fakeserver"
)

// TestOnlyAServerThatIsSureIsBelieved is fault 28: denials may come from a server that has not
// read its roles, or from a proxy before it, for any time. It is asked for confirmation when it
// has denied for a recheck, and not after it has confirmed.
func TestOnlyAServerThatIsSureIsBelieved(t *testing.T) {
	t.Parallel()
	doubts := map[string]struct {
		err      error
		rechecks int // Until it is believed, once it is sure.
	}{
		"it cannot tell": {errors.New("not ready"), 0},
		"it allows it":   {nil, 1},
	}
	for name, r := range readers() {
		for doubt, tt := range doubts {
			t.Run(name+", and "+doubt, func(t *testing.T) {
				bubbleOf(t, r.id, func(b *bench) {
					told := b.follow()
					o := b.putMap(configMap(web, "1"))
					defer b.acquire(web)()
					b.settle()
					b.onDenies(false, tt.err)
					r.answer(b, r.denial)
					b.HangUp()
					pass(recheck)
					if got := b.Count(fakeserver.Asserting); got != 0 {
						t.Errorf("asked %d times whether it is sure in the first %s, want never", got, recheck)
					}
					pass(10 * recheck)
					denied := holding(o).with(r.denial)
					b.want(web, denied)
					b.wantNeverRevoked(told())
					if got := b.Count(fakeserver.Asserting); got < 5 {
						t.Errorf("asked %d times whether it is sure, want it asked again and again", got)
					}

					b.onDenies(true, nil)
					pass(time.Duration(tt.rechecks)*recheck + 2*longestSilence)
					denied.Revoked = true
					b.want(web, denied)
					before := b.Count(fakeserver.Asserting)
					pass(time.Hour)
					b.want(web, denied)
					if got := b.Count(fakeserver.Asserting) - before; got != 0 {
						t.Errorf("asked %d times more whether it is sure, want never again", got)
					}
				})
			})
		}
	}
}

// TestARevocationIsFollowedInTime: at worst access is lost just after a watch was opened that
// lasts longest. docs/access.md and docs/security/driver.md state the sum; TestThePagesSayWhenADenialIsBelieved,
// beside the flag, checks these pages.
func TestARevocationIsFollowedInTime(t *testing.T) {
	t.Parallel()
	for name, r := range readers() {
		for interval, atMost := range map[time.Duration]time.Duration{
			2 * time.Minute:  5 * time.Minute,
			time.Minute:      time.Minute * 5 / 2,
			10 * time.Second: 10*time.Second*5/2 + 10*time.Second,
			2 * time.Second:  2*time.Second*5/2 + 10*time.Second,
		} {
			t.Run(fmt.Sprint(name, " with a recheck of ", interval), func(t *testing.T) {
				bubbleWith(t, r.id, interval, func(b *bench) {
					b.putMap(configMap(web, "1"))
					for range 50 {
						giveBack := b.acquire(web)
						b.settle()
						r.answer(b, r.denial)
						b.wantRevokedWithin(web, atMost)
						r.answer(b, nil)
						giveBack()
					}
				})
			})
		}
	}
}

// wantRevokedWithin waits until an object is revoked.
func (b *bench) wantRevokedWithin(ref api.Ref, atMost time.Duration) {
	b.t.Helper()
	for began := time.Now(); !b.known(ref).Revoked; b.EndOverdue() {
		pass(100 * time.Millisecond)
		if took := time.Since(began); took > atMost {
			b.t.Fatalf("%s is not revoked after %s, want it within %s", ref, took, atMost)
		}
	}
}
