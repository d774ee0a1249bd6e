package objectwatch_test

import (
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/objectwatch"
)

// Where bookmarks are sent, a watch counts as dead after 160 to 184 s without a sign; it is
// looked at every two.
const (
	shortestTimeout = 160 * time.Second
	longestTimeout  = 186*time.Second + longestSilence
)

// soon is after how long watches are opened again, by which the API server decides again what a pod
// may read.
const soon = 80 * time.Second

// wantReplaced compares how many watches were found to be dead.
func (b *bench) wantReplaced(want int) {
	b.t.Helper()
	b.settle()
	if got := b.Replaced(); got != want {
		b.t.Errorf("%d watches were found to be dead, want %d", got, want)
	}
}

// TestAWatchThatDiesSilentlyIsReplaced is fault 24: the connection stays open and delivers
// nothing. The list that follows asks for the latest, because its server's cache may be as old.
func TestAWatchThatDiesSilentlyIsReplaced(t *testing.T) {
	bubble(t, func(b *bench) {
		o := b.putMap(configMap(web, "1"))
		defer b.acquire(web)()
		b.Bookmarks(10*time.Minute, web)
		b.Deaden(web)
		next := b.putMap(configMap(web, "2"))
		pass(shortestTimeout - time.Second)
		b.want(web, holding(o))
		b.WantRequests(web, "list", "watch")
		pass(longestTimeout - shortestTimeout + time.Second)
		b.want(web, holding(next))
		b.WantRequests(web, "list", "watch", "list", "watch")
		b.WantVersions("", "")
		b.wantReplaced(1)
		b.wantWatches(1)
		b.wantChanges(2) // Pods do not see that it was dead.
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
		b.Deaden(web)
		b.Bookmarks(2*time.Minute, cert)
		b.wantReplaced(0)
		next := b.putMap(configMap(web, "2"))
		b.Bookmark(other)
		pass(longestTimeout - 2*time.Minute)
		b.want(web, holding(next))
		b.WantRequests(web, "list", "watch", "list", "watch")
		b.wantReplaced(1)
	})
}

// TestWithoutBookmarks: a silent object is listed less and less often, and its watch counts as
// dead when its API server should have ended it, half an hour to an hour after it began.
func TestWithoutBookmarks(t *testing.T) {
	bubble(t, func(b *bench) {
		defer b.acquire(web)()
		pass(shortestTimeout - time.Second)
		b.WantRequests(web, "list", "watch")
		if got, want := b.Silence(), shortestTimeout-time.Second; got != want {
			t.Errorf("Silence = %s, want %s", got, want)
		}
		const hours = 8
		pass(hours * time.Hour)
		var last time.Duration
		times := b.Times("list", web)
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
		b.Deaden(web)
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
	answerAll := func(err error) func(*bench) { return func(b *bench) { b.Answer(err, err) } }
	for name, begin := range map[string]func(*bench){
		"connections are refused": answerAll(syscall.ECONNREFUSED),
		"the server is broken":    answerAll(apierrors.NewInternalError(errors.New("etcd is away"))),
		"nothing arrives":         func(b *bench) { b.Swallow(func(string, api.Ref) bool { return true }) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(b *bench) {
				b.putMap(configMap(web, "1"))
				defer b.acquire(web)()
				b.Bookmarks(2*time.Minute, web)
				begin(b)
				b.HangUp()
				for minutes := range 30 {
					pass(time.Minute)
					if got, want := b.Silence(), time.Duration(minutes+1)*time.Minute; got < want || got > want+2*time.Second {
						t.Errorf("Silence = %s after %s of outage", got, want)
					}
				}
				b.Answer(nil, nil)
				b.Swallow(nil)
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
		b.Answer(syscall.ECONNREFUSED, syscall.ECONNREFUSED)
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
		denied := apierrors.NewForbidden(corev1.Resource("configmaps"), "", errors.New("RBAC denies it"))
		b.Answer(denied, denied)
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
	for name, reopen := range map[string]time.Duration{"the driver's": objectwatch.QuietTime, "a pod's": soon} {
		t.Run(name, func(t *testing.T) {
			bubbleWith(t, reopen, func(b *bench) {
				b.putMap(configMap(web, "1"))
				defer b.acquire(web)()
				for range 10 {
					b.Bookmarks(time.Minute, web)
					b.HangUp() // The server ends watches when their time is up, and they go on from the same version.
					b.settle()
				}
				next := b.putUnseen(configMap(web, "2"))
				for range 3 {
					pass(longestTimeout / 3)
					b.HangUp()
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
	bubbleWith(t, soon, func(b *bench) {
		answer := b.HoldWatches()
		defer answer()
		defer b.acquire(web)()
		pass(90 * time.Second) // Less than any watch of this reader lasts, and than anybody waits.
		answer()
		b.settle()
		all := b.All()
		lasts := time.Duration(*all[len(all)-1].Opts.TimeoutSeconds) * time.Second
		for rest := lasts; rest > 0; rest -= time.Second {
			pass(time.Second)
			b.Bookmark(web)
		}
		b.wantReplaced(0)
		b.wantWatches(1)
		b.WantRequests(web, "list", "watch")
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
		b.Answer(nil, syscall.ECONNREFUSED)
		b.HangUp()
		b.settle()
		next := b.putUnseen(configMap(web, "2"))
		b.Answer(nil, nil)
		pass(longestSilence)
		b.want(web, holding(next))
		b.WantRequests(web, "list", "watch", "watch", "list", "watch")
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
			b.Bookmarks(2*time.Minute, web)
			b.putMap(configMap(other, fmt.Sprint(n)))
			b.settle()
			if got := b.Silence(); got != 0 {
				t.Errorf("Silence = %s, want none", got)
			}
		}
		b.WantRequests(web, "list", "watch")
		b.WantRequests(other, "list", "watch")
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
			b.Bookmarks(20*time.Minute, refs...)
			b.HangUp() // As API servers do at the requested time.
			b.settle()
		}
		atOnce := map[time.Time]int{}
		for _, ref := range refs {
			times := b.Times("list", ref)
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
		b.Bookmark(refs...)
		for _, ref := range refs {
			b.Deaden(ref)
		}
		began := time.Now()
		pass(longestTimeout)
		b.wantReplaced(many)
		perSecond := map[time.Duration]int{}
		for _, r := range b.All() {
			if since := r.At.Sub(began); r.Verb == "list" && since > 0 {
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
	b.PutUnseen(o)
	return o
}
