package source_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/liveconfig-csi/liveconfig/pkg/driver/source"
)

// TestAWatchThatStaysRefused: lists are served and watches are not, so the lists are what it is read by. What changes is
// seen, and nothing else is news: an error that came and went with each try would be told to the pods each time.
func TestAWatchThatStaysRefused(t *testing.T) {
	bubble(t, func(b *bench) {
		o := b.putMap(configMap(web, "1"))
		b.answer(nil, forbidden())
		defer b.acquire(web)()
		pass(untilPolled)
		b.wantChanges(web, 2) // The object, and that it is polled.
		b.onChange(func(key source.Key) {
			if s := b.Get(key); s.Err != nil || !s.Polled {
				b.t.Errorf("a change to %v, polled: %t; want it polled and well", s.Err, s.Polled)
			}
		})
		pass(time.Hour)
		b.want(web, polling(holding(o)))
		b.wantChanges(web, 0)

		o = b.putMap(configMap(web, "2"))
		pass(longestPause)
		b.want(web, polling(holding(o)))
		b.wantChanges(web, 1)

		b.remove(web)
		pass(longestPause)
		b.want(web, polling(known{Synced: true}))
		b.wantChanges(web, 1)
		if got := b.count("get"); got != 0 {
			t.Errorf("gets = %d, want none where lists are served", got)
		}

		b.onChange(nil)
		b.answer(nil, nil)
		pass(longestPause)
		b.want(web, known{Synced: true})
		b.wantChanges(web, 1)
		b.wantWatches(web, 1, 1)
	})
}

// TestAWatchThatFailsIsTrouble where it is not forbidden, however well lists are served.
func TestAWatchThatFailsIsTrouble(t *testing.T) {
	bubble(t, func(b *bench) {
		o := b.putMap(configMap(web, "1"))
		b.answer(nil, unavailable())
		defer b.acquire(web)()
		b.wantChanges(web, 2)
		troubled := holding(o)
		troubled.Err = unavailable().Error()
		b.want(web, troubled)
		pass(10 * time.Minute)
		b.want(web, troubled)
		b.wantChanges(web, 0)
		b.answer(nil, nil)
		pass(longestSilence)
		b.want(web, holding(o))
		b.wantWatches(web, 1, 1)
	})
}

// TestAnImmutableObjectNeedsNoWatch: where watches are refused, an object that cannot change is as good as watched. One
// that becomes immutable ends the polling.
func TestAnImmutableObjectNeedsNoWatch(t *testing.T) {
	bubble(t, func(b *bench) {
		b.putMap(configMap(web, "1"))
		b.answer(nil, forbidden())
		defer b.acquire(web)()
		pass(untilPolled)
		b.wantChanges(web, 2)
		o := b.putMap(immutable(web, "1"))
		pass(longestPause)
		b.want(web, holding(o))
		b.wantChanges(web, 1)
		b.wantWatches(web, 0, 0)
		defer b.acquire(web)() // Another one reads it anew, by a list alone.
		b.want(web, holding(o))
		b.wantChanges(web, 1)
	})
}

// TestTheFirstListIsConsistent: version 0 would let an API server answer from a cache that lags behind, and an immutable
// object is read only once.
func TestTheFirstListIsConsistent(t *testing.T) {
	bubble(t, func(b *bench) {
		b.putMap(immutable(web, "1"))
		defer b.acquire(web)()
		b.settle()
		defer b.acquire(web)()
		b.settle()
		b.answer(unavailable(), nil)
		defer b.acquire(web)()
		b.settle()
		b.answer(nil, nil)
		pass(longestSilence)
		b.wantVersions("", "", "", "")
	})
}

// TestARelistAsksForNothingOlder: after an expired watch, the list may come from a cache that is at least as new as what
// is known. Where even that cannot be had, the truth is asked for. This is fault 26.
func TestARelistAsksForNothingOlder(t *testing.T) {
	t.Parallel()
	gone := apierrors.NewResourceExpired("too old")
	tooLarge := apierrors.NewTimeoutError("Too large resource version", 1)
	tooLarge.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge}}
	for name, refusal := range map[string]*apierrors.StatusError{
		"the version is compacted away":      gone,
		"the server has not come so far yet": tooLarge,
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(b *bench) {
				b.putMap(configMap(web, "1"))
				defer b.acquire(web)()
				b.wantChanges(web, 1)
				expired := gone.Status()
				b.send(web, watch.Event{Type: watch.Error, Object: &expired})
				pass(longestSilence)
				b.wantVersions("", "101")
				b.refuseVersions(refusal)
				b.send(web, watch.Event{Type: watch.Error, Object: &expired})
				b.settle()
				o := b.putMap(configMap(web, "2"))
				pass(longestSilence)
				b.want(web, holding(o))
				b.wantWatches(web, 1, 1)
				b.wantVersions("", "101", "101", "")
			})
		})
	}
}

// wantVersions compares the resource versions that lists have asked for so far.
func (b *bench) wantVersions(want ...string) {
	b.t.Helper()
	var got []string
	for _, r := range b.all() {
		if r.verb == "list" {
			got = append(got, r.opts.ResourceVersion)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		b.t.Errorf("resource versions of lists (-want +got):\n%s", diff)
	}
}
