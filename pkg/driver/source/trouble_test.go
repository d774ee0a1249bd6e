package source_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/api/identity"
)

func forbidden() error {
	return apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "", fmt.Errorf("RBAC denies it"))
}

func unavailable() error { return apierrors.NewServiceUnavailable("overloaded") }

// refused is the error of a client if no API server listens.
func refused() error {
	return &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
}

// How long a watcher waits at first before it tries again, without jitter, and more than it ever
// waits.
const (
	firstRetry     = 200 * time.Millisecond
	longestSilence = 11 * time.Second
)

// longestDoubt is how long watches have to be refused until the object counts as polled.
const longestDoubt = 15 * time.Second

// TestTroubleKeepsTheContent ends a watch that worked, and nothing new can be read. The last good
// content stays (rule 56), and trouble is not absence (rule 7). The end of the trouble shows what
// has happened.
func TestTroubleKeepsTheContent(t *testing.T) {
	t.Parallel()
	changed := configMap(web, "2")
	for name, err := range map[string]error{"forbidden": forbidden(), "unavailable": unavailable(), "refused": refused()} {
		for what, happen := range map[string]func(b *bench, o *corev1.ConfigMap) (known, int){
			"nothing":    func(_ *bench, o *corev1.ConfigMap) (known, int) { return holding(o), 1 },
			"a change":   func(b *bench, _ *corev1.ConfigMap) (known, int) { return holding(b.putMap(changed.DeepCopy())), 2 },
			"a deletion": func(b *bench, _ *corev1.ConfigMap) (known, int) { b.Remove(web); return known{Synced: true}, 2 },
		} {
			t.Run(name+", and "+what, func(t *testing.T) {
				bubble(t, func(b *bench) {
					o := b.putMap(configMap(web, "1"))
					defer b.acquire(web)()
					b.wantChanges(web, 1)
					b.Answer(err, err)
					b.HangUp()
					troubled := holding(o).with(err)
					b.wantAfter(time.Hour, troubled, 1)
					want, changes := happen(b, o)
					b.want(web, troubled)
					b.Answer(nil, nil)
					b.wantAfter(longestSilence, want, changes)
					b.wantWatches(web, 1, 1)
				})
			})
		}
	}
}

// TestAReleaseEndsEverything that happens for an object, at once, also for the watchdog: the bench waits for the rest.
func TestAReleaseEndsEverything(t *testing.T) {
	each(t, identity.Driver(), map[string]func(b *bench){
		"while it is retried":     func(b *bench) { b.Answer(unavailable(), unavailable()) },
		"while it is polled":      (*bench).onlyGets,
		"while it is reopened":    func(b *bench) { time.AfterFunc(time.Minute, b.Cut) },
		"while access is asked":   func(b *bench) { b.onAllow(func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }) },
		"while it is watched":     func(*bench) {},
		"while it is listed":      func(b *bench) { b.Swallow(func(verb string, _ api.Ref) bool { return verb == "list" }) },
		"while a watch is opened": func(b *bench) { b.Swallow(func(verb string, _ api.Ref) bool { return verb == "watch" }) },
	}, func(b *bench, prepare func(b *bench)) {
		prepare(b)
		for range 3 {
			giveBack := b.acquire(web)
			pass(time.Minute)
			giveBack()
			b.want(web, known{})
			b.wantWatches(web, 0, 0)
			before := len(b.All())
			pass(3 * time.Hour)
			if got := len(b.All()) - before; got != 0 {
				b.t.Errorf("%d requests for an object without users, want none", got)
			}
			if got := b.Silence(); got != 0 {
				b.t.Errorf("Silence = %s, want none", got)
			}
		}
		if got := b.Replaced(); got != 0 {
			b.t.Errorf("%d watches were found to be dead, want none", got)
		}
	})
}

// TestAbsenceThatIsConfirmedIsNoNews lists an object again that did not exist before.
func TestAbsenceThatIsConfirmedIsNoNews(t *testing.T) {
	bubble(t, func(b *bench) {
		defer b.acquire(web)()
		b.wantChanges(web, 1)
		b.Fail(web, apierrors.NewResourceExpired("too old"))
		b.wantAfter(longestSilence, known{Synced: true}, 0)
		if got := b.Count("list"); got != 2 {
			t.Errorf("lists = %d, want 2", got)
		}
	})
}

// TestAnotherSortOfTroubleIsNews: a server that comes back without our rights must reach the
// publishes that wait. The object is failing since the first of consecutive errors.
func TestAnotherSortOfTroubleIsNews(t *testing.T) {
	bubble(t, func(b *bench) {
		wantFailing := func(want time.Time) {
			b.t.Helper()
			if got := b.Get(b.key(web)).Failing; !got.Equal(want) {
				b.t.Errorf("Failing = %s, want %s", got, want)
			}
		}
		defer b.acquire(web)()
		b.wantNow(known{Synced: true}, 1)
		wantFailing(time.Time{})
		pass(time.Minute)
		b.Answer(refused(), refused())
		b.HangUp()
		b.wantNow(known{Synced: true}.with(refused()), 1)
		since := b.Get(b.key(web)).Failing
		if got := time.Since(since); got > time.Second {
			b.t.Errorf("it has failed for %s, want since the first error", got)
		}
		b.wantAfter(time.Hour, known{Synced: true}.with(refused()), 0)
		b.Answer(forbidden(), forbidden())
		b.wantAfter(longestSilence, known{Synced: true}.with(forbidden()), 1)
		wantFailing(since)
		b.Answer(nil, nil)
		b.wantAfter(longestSilence, known{Synced: true}, 1)
		wantFailing(time.Time{})
	})
}

// TestAWatchThatIsClosedGoesOn is what API servers do all the time. A quiet watch is not given up
// (rule 59). This is fault 24.
func TestAWatchThatIsClosedGoesOn(t *testing.T) {
	bubble(t, func(b *bench) {
		o := b.putMap(configMap(web, "0"))
		defer b.acquire(web)()
		b.wantChanges(web, 1)
		for range 5 {
			b.Bookmarks(10*time.Minute, web)
			b.HangUp()
			b.settle()
			b.want(web, holding(o))
			b.wantWatches(web, 1, 1)
		}
		b.wantChanges(web, 0)
		if got := b.Count("list"); got != 1 {
			t.Errorf("lists = %d, want 1: the watch continues from the last version", got)
		}
		o = b.putMap(configMap(web, "1"))
		b.want(web, holding(o))
	})
}

// TestRetriesAreFewAndFarBetween counts requests over an hour in which reading never works, and
// how soon the end is seen. This is fault 30.
func TestRetriesAreFewAndFarBetween(t *testing.T) {
	bubble(t, func(b *bench) {
		o := b.putMap(configMap(web, "1"))
		b.Answer(unavailable(), unavailable())
		defer b.acquire(web)()
		b.wantAfter(time.Second, known{}.with(unavailable()), 1)
		if got := b.Count("list"); got < 2 || got > 5 {
			t.Errorf("requests in the first second = %d, want 2 to 5", got)
		}
		b.wantAfter(time.Hour, known{}.with(unavailable()), 0)
		// 5 to 10 s apart, but for a few after every other minute, when the client library starts
		// over.
		if got := b.Count("list"); got < 360 || got > 850 {
			t.Errorf("requests in an hour = %d, want 360 to 850", got)
		}
		b.Answer(nil, nil)
		b.wantAfter(longestSilence, holding(o), 2) // The trouble is over, and here is the object.
	})
}
