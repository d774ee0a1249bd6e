package source_test

import (
	"testing"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/api/identity"
	"github.com/liveconfig-csi/liveconfig/pkg/release"
)

// TestAnImmutableObjectIsNotWatched is the first half of rule 60: nothing is requested any more,
// whether it was read by lists or gets. It is the same for an object that becomes immutable.
func TestAnImmutableObjectIsNotWatched(t *testing.T) {
	each(t, identity.Driver(), map[string]func(b *bench){
		"by lists":                         func(*bench) {},
		"by lists, and watches are denied": func(b *bench) { b.Answer(nil, forbidden()) },
		"by gets":                          (*bench).onlyGets,
	}, func(b *bench, prepare func(b *bench)) {
		prepare(b)
		o := b.putMap(immutable(web, "1"))
		giveBack := b.acquire(web)
		b.wantNow(holding(o), 1)
		b.wantWatches(web, 0, 0)
		if got := b.Requested(web); len(got) > 2 {
			b.t.Errorf("requests: %v, want it read once", got)
		}
		becomes := b.putMap(configMap(other, "1"))
		defer b.acquire(other)()
		pass(untilPolled)
		becomes = b.putMap(immutable(other, becomes.Data["k"]))
		pass(longestPause)
		b.want(other, holding(becomes))
		b.wantWatches(other, 0, 0)
		before := len(b.All())
		pass(24 * time.Hour)
		b.want(web, holding(o))
		if got := len(b.All()) - before; got != 0 {
			b.t.Errorf("%d requests in a day, want none", got)
		}
		giveBack()
		b.want(web, known{})
	})
}

// TestANewUserReadsAnImmutableObjectAgain: it may have been created again unnoticed. Until the
// answer arrives, the newcomer does not get the old content, and then all users have the new one,
// or none if it is gone.
// This is the second half of rule 60, trap 15 and fault 25.
func TestANewUserReadsAnImmutableObjectAgain(t *testing.T) {
	bubble(t, func(b *bench) {
		b.putMap(immutable(web, "old"))
		defer b.acquire(web)()
		b.wantChanges(web, 1)
		b.Remove(web)
		o := b.putMap(immutable(web, "new"))
		b.wantChanges(web, 0)

		answer := b.Hold()
		defer answer()
		defer b.acquire(web)()
		b.settle()
		if b.known(web).Synced {
			t.Error("the stale object is taken for current")
		}
		answer()
		b.wantNow(holding(o), 1)
		b.wantWatches(web, 0, 0)
		b.WantVersions("", "") // Not from a cache that lags behind.

		b.Answer(unavailable(), unavailable()) // The API server is away when the next user comes.
		defer b.acquire(web)()
		b.settle()
		if got := b.known(web); got.Synced || got.Err != unavailable().Error() {
			t.Errorf("known = %+v, want not synced and why", got)
		}
		b.Answer(nil, nil)
		b.Remove(web)
		pass(longestSilence)
		b.want(web, known{Synced: true})
		b.wantWatches(web, 1, 1) // Whatever comes next under this name is new.
		o = b.putMap(configMap(web, "new"))
		b.want(web, holding(o))
		b.wantWatches(web, 1, 1)
	})
}

// TestNewcomersToAnUnchangedImmutableObject come and go; each costs one list and the content is
// what it was.
func TestNewcomersToAnUnchangedImmutableObject(t *testing.T) {
	bubble(t, func(b *bench) {
		o := b.putMap(immutable(web, "1"))
		stay := b.acquire(web)
		b.settle()
		for range 5 {
			leave := b.acquire(web)
			b.want(web, holding(o))
			b.wantWatches(web, 0, 0)
			leave()
			b.want(web, holding(o))
		}
		if got := b.Count("list"); got != 6 {
			t.Errorf("lists = %d, want one for each user", got)
		}
		leave := b.acquire(web) // During its list; the other user stays.
		leave()
		b.want(web, holding(o))
		stay()
		b.want(web, known{})
		b.wantWatches(web, 0, 0)
	})
}

// TestAnImmutableObjectOfAReleaseIsWatched: its annotations change, and they decide what pods get.
func TestAnImmutableObjectOfAReleaseIsWatched(t *testing.T) {
	bubble(t, func(b *bench) {
		released := immutable(web, "1")
		released.Annotations = map[string]string{release.Annotation: ""}
		stable := immutable(other, "1")
		stable.Labels = map[string]string{release.StableLabel: web.Name}
		b.putMap(released)
		b.putMap(stable)
		defer b.acquire(web)()
		defer b.acquire(other)()
		b.wantWatches(web, 1, 2)
		b.wantWatches(other, 1, 2)

		b.Remove(other) // The controller makes it again.
		stable = immutable(other, "2")
		stable.Labels = map[string]string{release.StableLabel: web.Name}
		b.want(other, holding(b.putMap(stable)))
		b.wantWatches(other, 1, 2)

		b.want(web, holding(b.putMap(immutable(web, "1")))) // It is not released any more.
		b.wantWatches(web, 0, 1)
	})
}
