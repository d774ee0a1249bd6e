package csidriver_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// TestAwayBeforeTheFirstAnswer: Check waits until the API server is there. The same trouble again is no news.
func TestAwayBeforeTheFirstAnswer(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		is   trouble
		want string
	}{
		"refused": {
			refused(), `Get "http://api/apis/storage.k8s.io/v1/csidrivers?fieldSelector=metadata.name%3Dcsi.example.org&limit=500": ` +
				`dial tcp: connect: connection refused`,
		},
		"overloaded":   {overloaded(), "overloaded"},
		"unauthorized": {unauthorized(), "not yet"},
	}
	for sentence, test := range tests {
		t.Run(sentence, func(t *testing.T) {
			bubble(t, func(b *bench) {
				b.put(new(true))
				b.suffer(test.is)
				b.start()
				result := make(chan error, 1)
				go func() { result <- b.Check(b.t.Context()) }()
				pass(10 * time.Minute)
				if len(result) > 0 {
					b.t.Fatalf("Check = %v before the API server has answered", <-result)
				}
				b.want(unread)
				b.wantError("whether the kubelet vouches for pods is not known: " +
					"the CSIDriver object csi.example.org cannot be read: " + test.want)
				b.wantLog(logWaiting)

				b.suffer(trouble{})
				pass(longestSilence)
				if err := <-result; err != nil {
					b.t.Errorf("Check = %v, want nil", err)
				}
				b.wantLog(logRight, logAgain)
			})
		})
	}
}

// TestForbiddenFromTheStart: an answer it is, and nobody waits for another. It heals by itself once somebody grants it.
func TestForbiddenFromTheStart(t *testing.T) {
	bubble(t, func(b *bench) {
		b.put(new(true))
		b.suffer(denied())
		b.start()
		began := time.Now()
		err := b.Check(b.t.Context())
		if got := time.Since(began); got != 0 {
			b.t.Errorf("Check took %v, want no time", got)
		}
		if kindOf(b.t, err) != unread || !apierrors.IsForbidden(err) {
			b.t.Errorf("Check = %v, want it to be %s and to wrap the API server's error", err, unread)
		}
		pass(time.Hour)
		b.wantError("whether the kubelet vouches for pods is not known: the CSIDriver object csi.example.org cannot be read: " +
			"csidrivers.storage.k8s.io is forbidden: User \"driver\" cannot list resource \"csidrivers\"; add to the rules of the " +
			"driver's ClusterRole: {apiGroups: [storage.k8s.io], resources: [csidrivers], resourceNames: [csi.example.org], " +
			"verbs: [get, list, watch]}")
		b.wantLog(logWaiting)

		b.suffer(trouble{})
		pass(longestSilence)
		b.want(right)
		b.wantLog(logRight, logAgain)
	})
}

// TestTroubleKeepsWhatIsKnown breaks a watch that worked. What happens meanwhile is seen when it heals.
func TestTroubleKeepsWhatIsKnown(t *testing.T) {
	t.Parallel()
	objects := map[string]func(*bench){
		right: func(b *bench) { b.put(new(true)) }, wrong: func(b *bench) { b.put(new(false)) }, missing: func(*bench) {},
	}
	troubles := map[string]trouble{
		"forbidden": denied(), "refused": refused(), "overloaded": overloaded(), "unauthorized": unauthorized(),
	}
	for known, object := range objects {
		for sentence, is := range troubles {
			t.Run(known+" and then "+sentence, func(t *testing.T) {
				bubble(t, func(b *bench) {
					object(b)
					b.start()
					b.want(known)
					b.skipLog()
					pass(time.Minute) // A watch that ends sooner is not taken for one that was open.
					b.suffer(is)
					b.hangUp()
					pass(10 * time.Minute)
					b.want(known)
					b.wantLog(logStays)

					becomes, lines := right, []string{logRight, logAgain}
					if known == right {
						b.remove()
						becomes, lines = missing, []string{logWrong, logAgain}
					} else {
						b.put(new(true))
					}
					b.want(known)
					b.suffer(trouble{})
					pass(longestSilence)
					b.want(becomes)
					if is.dial != nil { // The watch goes on from where it was, and is open before it brings anything.
						slices.Reverse(lines)
					}
					b.wantLog(lines...)
				})
			})
		}
	}
}

// TestAnObjectThatWasMendedUnseen: who has done what the message says is told why it is not seen.
func TestAnObjectThatWasMendedUnseen(t *testing.T) {
	bubble(t, func(b *bench) {
		b.put(nil)
		b.start()
		b.want(wrong)
		b.suffer(overloaded())
		b.hangUp()
		pass(time.Minute)
		b.put(new(true))
		b.wantError(unvouched + "; " +
			"a change may be seen late: the CSIDriver object csi.example.org cannot be read: overloaded")
	})
}

// TestTheLogSaysWhatToType, and of trouble what it is. Trouble that is over when something else is found is not in it.
func TestTheLogSaysWhatToType(t *testing.T) {
	bubble(t, func(b *bench) {
		b.put(new(true))
		b.start()
		b.want(right)
		b.suffer(overloaded())
		b.hangUp()
		pass(time.Minute)
		b.put(nil)
		b.suffer(trouble{})
		pass(longestSilence)
		b.want(wrong)
		want := []string{"<nil>", "the CSIDriver object csi.example.org cannot be read: overloaded", unvouched, "<nil>"}
		var got []string
		for _, e := range b.log.Data() {
			got = append(got, fmt.Sprint(e.Err))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			b.t.Errorf("errors in the log (-want +got):\n%s", diff)
		}
	})
}

// TestAnotherSortOfTroubleIsNews, and one of the same sort is none whatever its text.
func TestAnotherSortOfTroubleIsNews(t *testing.T) {
	bubble(t, func(b *bench) {
		b.put(new(true))
		b.start()
		b.wantLog(logRight)
		b.suffer(refused())
		b.hangUp()
		pass(time.Minute)
		b.wantLog(logStays)
		b.suffer(overloaded())
		pass(time.Minute)
		b.wantLog()
		b.suffer(denied())
		pass(time.Minute)
		b.wantLog(logStays)
		b.suffer(refused())
		pass(time.Minute)
		b.wantLog(logStays)
		b.suffer(trouble{})
		pass(time.Minute)
		b.wantLog(logAgain)
		b.want(right)
	})
}

// TestAWatchThatIsRefused: lists are served, so that what is wrong is known, and seen by the lists of each try.
func TestAWatchThatIsRefused(t *testing.T) {
	bubble(t, func(b *bench) {
		b.put(new(true))
		b.suffer(trouble{watch: forbidden("watch")})
		b.start()
		b.want(right)
		b.wantLog(logRight, logStays)
		pass(20 * time.Minute)
		b.wantLog()

		b.put(new(false))
		pass(longestSilence)
		b.want(wrong)
		b.wantLog(logWrong)

		b.suffer(trouble{})
		pass(longestSilence)
		b.put(new(true))
		b.want(right)
		b.wantLog(logAgain, logRight)
	})
}

// TestAListThatNeverEnds: what is known needs no answer. The list is one that follows a watch that has expired.
func TestAListThatNeverEnds(t *testing.T) {
	bubble(t, func(b *bench) {
		b.put(new(true))
		b.start()
		b.want(right)
		defer b.hold()()
		b.expire()
		pass(time.Hour)
		b.want(right)
	})
}

// TestAnExpiredWatchListsAnew: the server has forgotten the version that the watch would go on from, and perhaps that it
// ever was.
func TestAnExpiredWatchListsAnew(t *testing.T) {
	t.Parallel()
	for sentence, is := range map[string]trouble{
		"which goes on from there":   {},
		"which has to begin anew":    {old: apierrors.NewResourceExpired("too old")},
		"of a server that went back": {old: tooLarge()},
		"that cannot be opened":      {watch: apierrors.NewResourceExpired("too old")},
	} {
		t.Run(sentence, func(t *testing.T) {
			bubble(t, func(b *bench) {
				b.put(new(true))
				b.start()
				b.want(right)
				b.suffer(is)
				b.putUnseen(new(false))
				b.want(right)
				b.expire()
				pass(longestSilence)
				b.want(wrong)
				b.suffer(trouble{})
				pass(longestSilence)
				b.put(new(true))
				b.want(right)
				b.wantLog(logRight, logWrong, logRight)
			})
		})
	}
}

// TestAWatchThatIsClosedGoesOn is what API servers do all the time. It is neither logged nor listed for.
func TestAWatchThatIsClosedGoesOn(t *testing.T) {
	bubble(t, func(b *bench) {
		b.put(new(true))
		b.start()
		b.wantLog(logRight)
		for range 5 {
			pass(time.Hour)
			b.hangUp()
			b.want(right)
			if got := b.open(); got != 1 {
				b.t.Errorf("open watches = %d, want 1", got)
			}
		}
		b.wantLog()
		if got := b.count("list"); got != 1 {
			b.t.Errorf("lists = %d, want 1: the watch goes on from where it was", got)
		}
		b.put(new(false))
		b.want(wrong)
	})
}

// TestRetriesAreFewAndFarBetween counts requests over an hour of refusals.
func TestRetriesAreFewAndFarBetween(t *testing.T) {
	bubble(t, func(b *bench) {
		b.suffer(denied())
		b.start()
		pass(time.Second)
		if got := b.count("list"); got < 2 || got > 5 {
			b.t.Errorf("requests in the first second = %d, want 2 to 5", got)
		}
		pass(time.Hour)
		// 5 to 10 s apart, but for a few after every other minute, when the client library starts over.
		if got := b.count("list"); got < 360 || got > 850 {
			b.t.Errorf("requests in an hour = %d, want 360 to 850", got)
		}
	})
}

// TestTheEndDuringTrouble ends a watcher that is waiting to try again.
func TestTheEndDuringTrouble(t *testing.T) {
	bubble(t, func(b *bench) {
		b.suffer(refused())
		b.start()
		pass(time.Minute)
		b.stop()
		if err := <-b.ended; err != nil {
			b.t.Errorf("Run = %v, want nil", err)
		}
		b.wantError("whether the kubelet vouches for pods is not known: the driver is being stopped")
	})
}
