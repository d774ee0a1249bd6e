package source_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/api/identity"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/source"
)

// TestUsersShareAWatch is rule 57: the first user starts the watch of an object, the last one
// ends it, and to leave twice is harmless. This is fault 27.
func TestUsersShareAWatch(t *testing.T) {
	bubble(t, func(b *bench) {
		first := b.acquire(web)
		b.wantWatches(web, 1, 1)
		second := b.acquire(web)
		b.wantWatches(web, 1, 1)
		b.wantChanges(web, 1) // The second user is not news for the first.

		first()
		first() // Again, which counts for nothing.
		b.wantWatches(web, 1, 1)
		o := b.putMap(configMap(web, "1"))
		b.wantNow(holding(o), 1)

		second()
		b.wantWatches(web, 0, 0)
		b.putMap(configMap(web, "2"))
		b.wantNow(known{}, 0)
		if diff := cmp.Diff([]string{"list", "watch"}, b.Requested(web)); diff != "" {
			t.Errorf("requests (-want +got):\n%s", diff)
		}
	})
}

// TestIdentitiesDoNotShare a watch, nor a client.
func TestIdentitiesDoNotShare(t *testing.T) {
	bubble(t, func(b *bench) {
		pods := identity.Of(runner)
		for _, id := range []identity.Identity{identity.Driver(), pods} {
			b.id = id
			b.acquire(web)
			b.settle()
		}
		b.wantWatches(web, 2, 2)
		if diff := cmp.Diff([]identity.Identity{identity.Driver(), pods}, b.clients); diff != "" {
			t.Errorf("clients asked for (-want +got):\n%s", diff)
		}
	})
}

// TestNothingIsReadBeforeRun, and then only what still has users.
func TestNothingIsReadBeforeRun(t *testing.T) {
	early(t, identity.Driver(), recheck, func(b *bench) {
		b.acquire(other)()
		b.acquire(web)
		b.wantAfter(time.Hour, known{}, 0)
		b.wantWatches(web, 0, 1)
		b.serve()
		b.wantNow(known{Synced: true}, 1)
		b.WantRequests(web, "list", "watch")
		b.WantRequests(other)
	})
}

// TestARestartIsFresh: after the last use nothing is stored of an object, and the next user waits
// for an answer. Stale data is not served (rule 59): neither what was known, nor the answer to a
// list of a watch that has been stopped, which comes in late. This is fault 27.
func TestARestartIsFresh(t *testing.T) {
	bubble(t, func(b *bench) {
		b.putMap(configMap(web, "old"))
		giveBack := b.acquire(web)
		b.wantChanges(web, 1)
		giveBack()
		late := b.Hold()
		defer late()
		b.acquire(web)()
		b.settle()

		inTime := b.Hold()
		o := b.putMap(configMap(web, "new"))
		defer b.acquire(web)()
		b.wantNow(known{}, 0)
		inTime()
		b.wantNow(holding(o), 1)

		late()
		b.wantNow(holding(o), 0)
		b.wantWatches(web, 1, 1)
	})
}

func TestTheContextEndsEverything(t *testing.T) {
	bubble(t, func(b *bench) {
		giveBack := b.acquire(web)
		b.acquire(cert)
		b.wantWatches(web, 1, 2)
		b.stop()
		b.running.Wait()
		if got := b.Open(web) + b.Open(cert); got != 0 {
			t.Errorf("open watches = %d, want 0", got)
		}
		before := len(b.Requested(web))
		late := b.acquire(web) // Too late: nothing starts.
		pass(time.Hour)
		late()
		giveBack()
		if got := len(b.Requested(web)); got != before {
			t.Errorf("requests after the end: %d, want none", got-before)
		}
	})
}

// TestUsersAreCounted plays random users against a count of them kept beside: an object is
// watched once while it has users and not at all otherwise, and what is known of it is what the
// cluster holds. This is rule 57.
func TestUsersAreCounted(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			bubble(t, func(b *bench) { playUsers(b, rand.New(rand.NewPCG(seed, 2))) })
		})
	}
}

func playUsers(b *bench, r *rand.Rand) {
	refs := []api.Ref{web, other, {Kind: api.ConfigMap, Namespace: "shared", Name: "web"}}
	releases := map[api.Ref][]func(){}
	content := map[api.Ref]known{}
	for _, ref := range refs {
		content[ref] = known{Synced: true}
	}
	for step := range 120 {
		ref := refs[r.IntN(len(refs))]
		users := releases[ref]
		switch what := r.IntN(10); {
		case what < 4:
			releases[ref] = append(users, b.acquire(ref))
		case what < 8 && len(users) > 0:
			i := r.IntN(len(users))
			users[i]()
			releases[ref] = append(users[:i:i], users[i+1:]...)
		case what == 8 && content[ref].Found:
			b.Remove(ref)
			content[ref] = known{Synced: true}
		default:
			content[ref] = holding(b.putMap(configMap(ref, fmt.Sprint(step))))
		}
		if r.IntN(3) == 0 { // Else more happens before anything settles.
			checkUsers(b, refs, releases, content)
		}
	}
	for _, ref := range refs {
		for _, giveBack := range releases[ref] {
			giveBack()
		}
		releases[ref] = nil
	}
	checkUsers(b, refs, releases, content)
}

// checkUsers compares what is watched and known with the users.
func checkUsers(b *bench, refs []api.Ref, releases map[api.Ref][]func(), content map[api.Ref]known) {
	used := 0
	for _, ref := range refs {
		used += min(1, len(releases[ref]))
	}
	for _, ref := range refs {
		b.wantWatches(ref, min(1, len(releases[ref])), used)
		if len(releases[ref]) > 0 {
			b.want(ref, content[ref])
		} else {
			b.want(ref, known{})
		}
	}
}

// TestManyAtOnce is for the race detector: users come and go, objects change and callbacks read,
// all at once.
func TestManyAtOnce(t *testing.T) {
	bubble(t, func(b *bench) {
		refs := []api.Ref{web, other, cert}
		b.onChange(func(key source.Key) { b.Get(key) })
		var running sync.WaitGroup
		for n := range uint64(8) {
			r := rand.New(rand.NewPCG(n, 3))
			running.Go(func() {
				for range 40 {
					ref := refs[r.IntN(len(refs))]
					giveBack := b.acquire(ref)
					if r.IntN(2) == 0 {
						b.Get(byDriver(ref))
					} else {
						pass(time.Duration(r.IntN(1000)) * time.Microsecond)
					}
					giveBack()
				}
			})
		}
		running.Go(func() {
			for i := range 50 {
				if i%5 == 4 {
					b.putMap(immutable(other, fmt.Sprint(i)))
				} else {
					b.putMap(configMap(web, fmt.Sprint(i)))
				}
				pass(100 * time.Microsecond)
			}
		})
		running.Wait()
		for _, ref := range refs {
			b.wantWatches(ref, 0, 0)
			b.want(ref, known{})
		}
	})
}
