package source_test

import (
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/api/identity"
)

// Where bookmarks are sent, a watch counts as dead after 160 to 184 s without a sign; it is
// looked at every two.
const (
	shortestTimeout = 160 * time.Second
	longestTimeout  = 186*time.Second + longestSilence
)

// sentEvery is how often API servers send bookmarks.
const sentEvery = time.Minute

// bookmark sends one to the watches of the refs.
func (b *bench) bookmark(refs ...api.Ref) {
	b.t.Helper()
	for _, ref := range refs {
		meta := metav1.ObjectMeta{ResourceVersion: "200"}
		var o runtime.Object = &corev1.ConfigMap{ObjectMeta: meta}
		if ref.Kind == api.Secret {
			o = &corev1.Secret{ObjectMeta: meta}
		}
		b.send(ref, watch.Event{Type: watch.Bookmark, Object: o})
	}
	b.settle()
}

// bookmarks sends bookmarks for as long as that, as often as API servers do.
func (b *bench) bookmarks(d time.Duration, refs ...api.Ref) {
	b.t.Helper()
	for range d / sentEvery {
		pass(sentEvery)
		b.bookmark(refs...)
	}
}

// wantReplaced compares how many watches were found to be dead.
func (b *bench) wantReplaced(want int) {
	b.t.Helper()
	b.settle()
	if got := b.Replaced(); got != want {
		b.t.Errorf("%d watches were found to be dead, want %d", got, want)
	}
}

// wantRequests compares the verbs of the requests for a ref so far.
func (b *bench) wantRequests(ref api.Ref, want ...string) {
	b.t.Helper()
	b.settle()
	if diff := cmp.Diff(want, b.requested(ref)); diff != "" {
		b.t.Errorf("requests for %s (-want +got):\n%s", ref, diff)
	}
}

// TestAWatchThatDiesSilentlyIsReplaced is fault 24: the connection stays open and delivers
// nothing. The list that follows asks for the latest, because its server's cache may be as old.
func TestAWatchThatDiesSilentlyIsReplaced(t *testing.T) {
	bubble(t, func(b *bench) {
		o := b.putMap(configMap(web, "1"))
		defer b.acquire(web)()
		b.bookmarks(10*time.Minute, web)
		b.deaden(web)
		next := b.putMap(configMap(web, "2"))
		pass(shortestTimeout - time.Second)
		b.want(web, holding(o))
		b.wantRequests(web, "list", "watch")
		pass(longestTimeout - shortestTimeout + time.Second)
		b.want(web, holding(next))
		b.wantRequests(web, "list", "watch", "list", "watch")
		b.wantVersions("", "")
		b.wantReplaced(1)
		b.wantWatches(web, 1, 1)
		b.wantChanges(web, 2) // Pods do not see that it was dead.
		last := b.putMap(configMap(web, "3"))
		b.want(web, holding(last))
	})
}

// TestAWatchThatIsBornDead is detected by bookmarks of another watch of its kind. If an API server
// has seen no change of a kind since it started, it sends no bookmarks.
func TestAWatchThatIsBornDead(t *testing.T) {
	bubble(t, func(b *bench) {
		b.putMap(configMap(web, "1"))
		defer b.acquire(web)()
		defer b.acquire(other)()
		defer b.acquire(cert)()
		b.settle()
		b.deaden(web)
		b.bookmarks(2*time.Minute, cert)
		b.wantReplaced(0)
		next := b.putMap(configMap(web, "2"))
		b.bookmark(other)
		pass(longestTimeout - 2*time.Minute)
		b.want(web, holding(next))
		b.wantRequests(web, "list", "watch", "list", "watch")
		b.wantReplaced(1)
	})
}

// TestWithoutBookmarks: a silent object is listed less and less often, and its watch counts as
// dead when its API server should have ended it, half an hour to an hour after it began.
func TestWithoutBookmarks(t *testing.T) {
	bubble(t, func(b *bench) {
		defer b.acquire(web)()
		pass(shortestTimeout - time.Second)
		b.wantRequests(web, "list", "watch")
		if got, want := b.Silence(), shortestTimeout-time.Second; got != want {
			t.Errorf("Silence = %s, want %s", got, want)
		}
		const hours = 8
		pass(hours * time.Hour)
		var last time.Duration
		times := b.times("list", web)
		for n := range min(4, len(times)-1) {
			pause := times[n+1].Sub(times[n])
			if pause < last*3/2 {
				t.Errorf("list %d came %s after the one before, want about twice the time before that, %s", n, pause, last)
			}
			last = pause
		}
		if got := len(times); got < 4+hours/2 || got > 6+2*hours {
			t.Errorf("%d lists in %d hours, want some at first, and then one in about an hour", got, hours)
		}
		b.deaden(web)
		next := b.putMap(configMap(web, "1"))
		pass(61*time.Minute + longestSilence)
		b.want(web, holding(next))
		if b.Replaced() == 0 {
			t.Error("no watch was found dead, although its server ended none")
		}
	})
}

// TestSilenceGrowsDuringAnOutage, although no watch is open, and whether the network swallows requests, or the API server
// refuses connections or answers that it cannot serve. It is over when the API server delivers the object again.
func TestSilenceGrowsDuringAnOutage(t *testing.T) {
	t.Parallel()
	answerAll := func(err error) func(*bench) { return func(b *bench) { b.answer(err, err) } }
	for name, begin := range map[string]func(*bench){
		"connections are refused": answerAll(syscall.ECONNREFUSED),
		"the server is broken":    answerAll(apierrors.NewInternalError(errors.New("etcd is away"))),
		"nothing arrives":         func(b *bench) { b.swallow(func(string, api.Ref) bool { return true }) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(b *bench) {
				b.putMap(configMap(web, "1"))
				defer b.acquire(web)()
				b.bookmarks(2*time.Minute, web)
				begin(b)
				b.hangUp()
				for minutes := range 30 {
					pass(time.Minute)
					if got, want := b.Silence(), time.Duration(minutes+1)*time.Minute; got < want || got > want+2*time.Second {
						t.Errorf("Silence = %s after %s of outage", got, want)
					}
				}
				b.answer(nil, nil)
				b.swallow(nil)
				pass(time.Minute + longestSilence) // A request that was swallowed lasts for a minute.
				if got := b.Silence(); got > time.Minute+longestSilence {
					t.Errorf("Silence = %s after the outage, want what passed since its end", got)
				}
			})
		})
	}
}

// TestSilenceFromTheStart: a driver that starts during an outage has heard of nothing since it asks.
func TestSilenceFromTheStart(t *testing.T) {
	bubble(t, func(b *bench) {
		b.answer(syscall.ECONNREFUSED, syscall.ECONNREFUSED)
		defer b.acquire(web)()
		pass(10 * time.Minute)
		if got := b.Silence(); got != 10*time.Minute {
			t.Errorf("Silence = %s, want 10m", got)
		}
	})
}

// TestADenialIsNoSilence: the API server answers, and other metrics show that it denies.
func TestADenialIsNoSilence(t *testing.T) {
	bubble(t, func(b *bench) {
		b.answer(forbiddenList(), forbidden())
		defer b.acquire(web)()
		pass(time.Hour)
		if got := b.Silence(); got > longestSilence {
			t.Errorf("Silence = %s, want that each denial ends it", got)
		}
	})
}

// TestAWatchFromTheFuture is fault 26: etcd was restored unnoticed, and the watch continues from a
// version that does not exist yet. Its server sends nothing until then.
func TestAWatchFromTheFuture(t *testing.T) {
	t.Parallel()
	for name, id := range map[string]identity.Identity{"the driver's": identity.Driver(), "a pod's": identity.Of(runner)} {
		t.Run(name, func(t *testing.T) {
			bubbleWith(t, id, 2*time.Minute, func(b *bench) {
				b.putMap(configMap(web, "1"))
				defer b.acquire(web)()
				for range 10 {
					b.bookmarks(time.Minute, web)
					b.hangUp() // The server ends watches when their time is up, and they go on from the same version.
					b.settle()
				}
				next := b.putUnseen(configMap(web, "2"))
				for range 3 {
					pass(longestTimeout / 3)
					b.hangUp()
				}
				pass(longestSilence)
				b.want(web, holding(next))
				b.wantReplaced(0)
			})
		})
	}
}

// TestAWatchThatWasLongInComing lasts as long as others: its server counts from its answer.
func TestAWatchThatWasLongInComing(t *testing.T) {
	bubbleWith(t, identity.Of(runner), 2*time.Minute, func(b *bench) {
		answer := b.holdWatches()
		defer answer()
		defer b.acquire(web)()
		pass(90 * time.Second) // Less than any watch of this reader lasts, and than anybody waits.
		answer()
		b.settle()
		all := b.all()
		lasts := time.Duration(*all[len(all)-1].opts.TimeoutSeconds) * time.Second
		for rest := lasts; rest > 0; rest -= time.Second {
			pass(time.Second)
			b.bookmark(web)
		}
		b.wantReplaced(0)
		b.wantWatches(web, 1, 1)
		b.wantRequests(web, "list", "watch")
		pass(20 * time.Second)
		b.wantReplaced(1) // Its server has not ended it.
	})
}

// TestAfterARefusedConnectionItIsListed, since a server that comes back may have gone back in
// time: faults 24 and 26.
func TestAfterARefusedConnectionItIsListed(t *testing.T) {
	bubble(t, func(b *bench) {
		b.putMap(configMap(web, "1"))
		defer b.acquire(web)()
		pass(time.Minute)
		b.answer(nil, syscall.ECONNREFUSED)
		b.hangUp()
		b.settle()
		next := b.putUnseen(configMap(web, "2"))
		b.answer(nil, nil)
		pass(longestSilence)
		b.want(web, holding(next))
		b.wantRequests(web, "list", "watch", "watch", "list", "watch")
	})
}

// TestALivelyWatchIsLeftAlone, whether bookmarks or events show that it lives. In steady state
// there is no request.
func TestALivelyWatchIsLeftAlone(t *testing.T) {
	bubble(t, func(b *bench) {
		b.putMap(configMap(other, "0"))
		defer b.acquire(web)()
		defer b.acquire(other)()
		for n := range 14 {
			b.bookmarks(2*time.Minute, web)
			b.putMap(configMap(other, fmt.Sprint(n)))
			b.settle()
			if got := b.Silence(); got != 0 {
				t.Errorf("Silence = %s, want none", got)
			}
		}
		b.wantRequests(web, "list", "watch")
		b.wantRequests(other, "list", "watch")
		b.wantReplaced(0)
	})
}

// TestEveryObjectIsListedAgainNowAndThen: about once in one to two hours, although its watch is
// alive. The objects are not listed at the same time.
func TestEveryObjectIsListedAgainNowAndThen(t *testing.T) {
	bubble(t, func(b *bench) {
		refs := b.many(10)
		const hours = 8
		for range hours * 3 {
			b.bookmarks(20*time.Minute, refs...)
			b.hangUp() // As API servers do at the requested time.
			b.settle()
		}
		atOnce := map[time.Time]int{}
		for _, ref := range refs {
			times := b.times("list", ref)
			if got := len(times) - 1; got < hours/2-1 || got > hours {
				t.Errorf("%s was listed %d times in %d hours, want once in one to two", ref, got, hours)
			}
			for _, at := range times[1:] {
				atOnce[at.Truncate(time.Second)]++
			}
		}
		for at, n := range atOnce {
			if n > len(refs)/5 {
				t.Errorf("%d objects of %d were listed within the second %s", n, len(refs), at)
			}
		}
		b.wantReplaced(0)
	})
}

// TestManyDeadWatchesAreNotReplacedAtOnce has many die together, as with the one connection that
// they share.
func TestManyDeadWatchesAreNotReplacedAtOnce(t *testing.T) {
	bubble(t, func(b *bench) {
		const many = 300
		refs := b.many(many)
		b.bookmark(refs...)
		for _, ref := range refs {
			b.deaden(ref)
		}
		began := time.Now()
		pass(longestTimeout)
		b.wantReplaced(many)
		perSecond := map[time.Duration]int{}
		for _, r := range b.all() {
			if since := r.at.Sub(began); r.verb == "list" && since > 0 {
				perSecond[since.Truncate(time.Second)]++
			}
		}
		for at, n := range perSecond {
			if n > many/6 {
				t.Errorf("%d objects of %d were listed in the second after %s", n, many, at)
			}
		}
	})
}

// putUnseen changes an object without telling any watch, of which none would go on from there.
func (b *bench) putUnseen(o *corev1.ConfigMap) *corev1.ConfigMap {
	b.t.Helper()
	ref := api.Ref{Kind: api.ConfigMap, Namespace: o.Namespace, Name: o.Name}
	b.deaden(ref)
	b.putMap(o)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.history[ref] = nil
	return o
}
