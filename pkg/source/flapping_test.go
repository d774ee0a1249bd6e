package source_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/liveconfig-csi/liveconfig/pkg/source"
)

// TestAWatchThatStaysRefused: lists work and watches do not. What changes is seen, and nothing else is news: an error
// that came and went with each try would be told to the pods each time.
func TestAWatchThatStaysRefused(t *testing.T) {
	bubble(t, func(b *bench) {
		o := b.putMap(configMap(web, "1"))
		b.answer(nil, forbidden())
		defer b.acquire(web)()
		b.wantChanges(web, 2) // The object, and that it is not kept current.
		troubled := holding(o)
		troubled.Err = forbidden().Error()
		b.onChange(func(key source.Key) {
			if b.Get(key).Err == nil {
				b.t.Error("a change that says that all is well")
			}
		})
		pass(time.Hour)
		b.want(web, troubled)
		b.wantChanges(web, 0)
		if got := b.count("list"); got < 300 {
			t.Errorf("lists in an hour = %d, want it tried all the time", got)
		}

		o = b.putMap(configMap(web, "2"))
		pass(longestSilence)
		troubled = holding(o)
		troubled.Err = forbidden().Error()
		b.want(web, troubled)
		b.wantChanges(web, 1)

		b.remove(web)
		pass(longestSilence)
		b.want(web, known{Synced: true, Err: forbidden().Error()})
		b.wantChanges(web, 1)

		b.onChange(nil)
		b.answer(nil, nil)
		pass(longestSilence)
		b.want(web, known{Synced: true})
		b.wantChanges(web, 1)
		b.wantWatches(web, 1, 1)
	})
}

// TestAnImmutableObjectNeedsNoWatch: where watches are refused, an object that cannot change is as good as watched. One
// that becomes immutable ends the trouble.
func TestAnImmutableObjectNeedsNoWatch(t *testing.T) {
	bubble(t, func(b *bench) {
		b.putMap(configMap(web, "1"))
		b.answer(nil, forbidden())
		defer b.acquire(web)()
		b.wantChanges(web, 2)
		o := b.putMap(immutable(web, "1"))
		pass(longestSilence)
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
// is known. Where even that cannot be had, the truth is asked for.
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
