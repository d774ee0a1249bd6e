package source_test

import (
	"fmt"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
)

func forbidden() error {
	return apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "", fmt.Errorf("RBAC says no"))
}

func unavailable() error { return apierrors.NewServiceUnavailable("overloaded") }

// refused is what a client says when no API server listens.
func refused() error {
	return &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
}

// How long a watcher waits at first before it tries again, without jitter, and more than it ever waits.
const (
	firstRetry     = 200 * time.Millisecond
	longestSilence = 11 * time.Second
)

// longestDoubt is how long watches have to be refused until the object counts as polled.
const longestDoubt = 15 * time.Second

func TestReadingThatNeverWorkedHeals(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]error{"forbidden": forbidden(), "unavailable": unavailable(), "refused": refused()} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(b *bench) {
				o := b.putMap(configMap(web, "1"))
				b.answer(err, err)
				defer b.acquire(web)()
				b.want(web, known{Err: err.Error()})
				b.wantChanges(web, 1)
				pass(10 * time.Minute)
				b.want(web, known{Err: err.Error()})
				b.wantChanges(web, 0) // The same trouble again is no news.

				b.answer(nil, nil)
				pass(longestSilence)
				b.want(web, holding(o))
				b.wantChanges(web, 2) // The trouble is over, and here is the object.
			})
		})
	}
}

// TestTroubleKeepsTheContent breaks a watch that worked and lets nothing new be read. What happens meanwhile is seen
// when it heals. The last good content stays (rule 56), and trouble is not absence (rule 7).
func TestTroubleKeepsTheContent(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]error{"forbidden": forbidden(), "unavailable": unavailable(), "refused": refused()} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(b *bench) {
				o := b.putMap(configMap(web, "1"))
				defer b.acquire(web)()
				b.wantChanges(web, 1)
				b.answer(err, err)
				b.hangUp()
				pass(time.Hour)
				troubled := holding(o)
				troubled.Err = err.Error()
				b.want(web, troubled)
				b.wantChanges(web, 1)

				o = b.putMap(configMap(web, "2"))
				b.want(web, troubled)
				b.answer(nil, nil)
				pass(longestSilence)
				b.want(web, holding(o))
				b.wantChanges(web, 2)
				b.wantWatches(web, 1, 1)
			})
		})
	}
}

func TestADeletionDuringTroubleIsSeenAfterwards(t *testing.T) {
	bubble(t, func(b *bench) {
		b.putMap(configMap(web, "1"))
		defer b.acquire(web)()
		b.settle()
		b.answer(unavailable(), unavailable())
		b.hangUp()
		b.remove(web)
		pass(longestSilence)
		b.answer(nil, nil)
		pass(longestSilence)
		b.want(web, known{Synced: true})
	})
}

// TestAbsenceThatIsConfirmedIsNoNews lists anew what was not there before.
func TestAbsenceThatIsConfirmedIsNoNews(t *testing.T) {
	bubble(t, func(b *bench) {
		defer b.acquire(web)()
		b.wantChanges(web, 1)
		expired := apierrors.NewResourceExpired("too old").Status()
		b.send(web, watch.Event{Type: watch.Error, Object: &expired})
		pass(longestSilence)
		b.want(web, known{Synced: true})
		b.wantChanges(web, 0)
		if got := b.count("list"); got != 2 {
			t.Errorf("lists = %d, want 2", got)
		}
	})
}

// TestTroubleThatEndsUnchangedIsSaid: the object is as it was, and the error is gone.
func TestTroubleThatEndsUnchangedIsSaid(t *testing.T) {
	bubble(t, func(b *bench) {
		o := b.putMap(configMap(web, "1"))
		defer b.acquire(web)()
		b.settle()
		b.answer(unavailable(), unavailable())
		b.hangUp()
		pass(longestSilence)
		b.wantChanges(web, 2)
		b.answer(nil, nil)
		pass(longestSilence)
		b.want(web, holding(o))
		b.wantChanges(web, 1)
	})
}

// TestAnotherSortOfTroubleIsNews: a server that comes back without the rights for us must reach whoever waits.
func TestAnotherSortOfTroubleIsNews(t *testing.T) {
	bubble(t, func(b *bench) {
		b.answer(refused(), refused())
		defer b.acquire(web)()
		b.want(web, known{Err: refused().Error()})
		b.wantChanges(web, 1)
		b.answer(forbidden(), forbidden())
		pass(longestSilence)
		b.want(web, known{Err: forbidden().Error()})
		b.wantChanges(web, 1)
	})
}

// TestAnExpiredWatchListsAnew: the server has forgotten the version that the watch would go on from. This is fault 24.
func TestAnExpiredWatchListsAnew(t *testing.T) {
	bubble(t, func(b *bench) {
		b.putMap(configMap(web, "1"))
		defer b.acquire(web)()
		b.wantChanges(web, 1)
		expired := apierrors.NewResourceExpired("too old").Status()
		b.send(web, watch.Event{Type: watch.Error, Object: &expired})
		b.settle()
		o := b.putMap(configMap(web, "2"))
		pass(longestSilence)
		b.want(web, holding(o))
		b.wantChanges(web, 1)
		b.wantWatches(web, 1, 1)
	})
}

// TestAWatchThatIsClosedGoesOn is what API servers do all the time. A quiet watch is not given up (rule 59).
// This is fault 24.
func TestAWatchThatIsClosedGoesOn(t *testing.T) {
	bubble(t, func(b *bench) {
		o := b.putMap(configMap(web, "0"))
		defer b.acquire(web)()
		b.wantChanges(web, 1)
		for range 5 {
			pass(time.Hour)
			b.hangUp()
			b.settle()
			b.want(web, holding(o))
			b.wantWatches(web, 1, 1)
		}
		b.wantChanges(web, 0)
		if got := b.count("list"); got != 1 {
			t.Errorf("lists = %d, want 1: the watch goes on from where it was", got)
		}
		o = b.putMap(configMap(web, "1"))
		b.want(web, holding(o))
	})
}

// TestRetriesAreFewAndFarBetween counts requests over an hour without an API server, and how soon the end is seen.
// This is fault 30.
func TestRetriesAreFewAndFarBetween(t *testing.T) {
	bubble(t, func(b *bench) {
		b.answer(unavailable(), unavailable())
		defer b.acquire(web)()
		pass(time.Second)
		if got := b.count("list"); got < 2 || got > 5 {
			t.Errorf("requests in the first second = %d, want 2 to 5", got)
		}
		pass(time.Hour)
		// 5 to 10 s apart, but for a few after every other minute, when the client library starts over.
		if got := b.count("list"); got < 360 || got > 850 {
			t.Errorf("requests in an hour = %d, want 360 to 850", got)
		}
	})
}

// TestReleaseDuringTrouble ends a watcher that is waiting to try again.
func TestReleaseDuringTrouble(t *testing.T) {
	bubble(t, func(b *bench) {
		b.answer(unavailable(), unavailable())
		release := b.acquire(web)
		pass(time.Minute)
		release()
		b.settle()
		before := b.count("list")
		pass(time.Hour)
		if got := b.count("list"); got != before {
			t.Errorf("requests after the release = %d, want none", got-before)
		}
		b.want(web, known{})
	})
}

// TestAnObjectOfAnotherTypeIsNotTaken: what is known stays.
func TestAnObjectOfAnotherTypeIsNotTaken(t *testing.T) {
	bubble(t, func(b *bench) {
		o := b.putMap(configMap(web, "1"))
		defer b.acquire(web)()
		b.wantChanges(web, 1)
		b.send(web, watch.Event{Type: watch.Modified, Object: &metav1.Status{}})
		b.want(web, holding(o))
		b.wantChanges(web, 0)
	})
}
