package objectwatch_test

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/objectwatch/fakeserver"
)

// The cases that a reflector of the client library handles: expired versions, bookmarks,
// consistent lists, backoff and slow starts. Each holds whichever way the API server writes.

// hush is content that must not be logged.
const hush = "hush-hush"

// whicheverWay runs a test on a bench for each content type that API servers answer in.
func whicheverWay(t *testing.T, test func(b *bench)) {
	t.Helper()
	kinds := map[string]string{"protobuf": runtime.ContentTypeProtobuf, "JSON": runtime.ContentTypeJSON}
	t.Parallel()
	runEach(t, kinds, func(b *bench, kind string) {
		b.Front.Speak(kind)
		test(b)
	})
}

// asks returns the requests for web so far, with the versions they name.
func (b *bench) asks() []string {
	b.t.Helper()
	b.settle()
	var asks []string
	for _, r := range b.All() {
		if r.Ref == web && r.Verb != fakeserver.Asking {
			asks = append(asks, r.Verb+" "+r.Opts.ResourceVersion)
		}
	}
	return asks
}

// wantAsked compares them.
func (b *bench) wantAsked(want ...string) {
	b.t.Helper()
	if diff := cmp.Diff(want, b.asks()); diff != "" {
		b.t.Errorf("requests for %s (-want +got):\n%s", web, diff)
	}
}

// gone is how API servers before 1.18 report that a version has expired.
func gone() *apierrors.StatusError {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: 410, Reason: metav1.StatusReasonGone, Message: "too old resource version",
	}}
}

// TestAnExpiredVersion makes the object listed, in whatever form it is reported, and is not
// trouble. The first list asks for the latest, a later one for nothing older than was listed or
// has come since, and for the latest where that cannot be had. These are faults 24 and 26.
func TestAnExpiredVersion(t *testing.T) {
	t.Parallel()
	tooLarge := apierrors.NewTimeoutError("Too large resource version", 1)
	tooLarge.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge}}
	expired := apierrors.NewResourceExpired("too old")
	for name, tt := range map[string]struct{ watch, list *apierrors.StatusError }{
		"expired": {expired, expired}, "gone": {gone(), gone()}, "not reached yet": {expired, tooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			whicheverWay(t, func(b *bench) {
				b.putMap(configMap(web, "1"))
				defer b.acquire(web)()
				b.wantChanges(1)
				want := []string{"list ", "watch 101"}
				b.wantAsked(want...)
				pass(time.Minute)

				b.Fail(web, tt.watch) // In an open watch.
				pass(longestSilence)
				want = append(want, "list 101", "watch 101")
				b.wantAsked(want...)

				b.Answer(nil, tt.watch) // To a request for a watch.
				o := b.putUnseen(configMap(web, "2"))
				b.HangUp()
				b.settle()
				b.Answer(nil, nil)
				pass(longestSilence)
				want = append(want, "watch 101", "list 101", "watch 102")
				b.wantAsked(want...)
				b.want(web, holding(o))

				b.Bookmark(web)
				b.RefuseVersions(tt.list) // To a request for a list.
				b.Fail(web, tt.watch)
				pass(longestSilence)
				b.wantAsked(append(want, "list 200", "list ", "watch 102")...)
				b.wantNow(holding(o), 1) // The second version: nothing else was news.
				for _, r := range b.All() {
					if r.Opts.ResourceVersionMatch != "" || r.Opts.Limit != 0 || r.Opts.Continue != "" || r.Opts.SendInitialEvents != nil {
						b.t.Errorf("%s with %+v, want a plain one", r.Verb, r.Opts)
					}
				}
			})
		})
	}
}

// TestBookmarksAndEventsAdvanceTheVersion from which the next watch continues, and nothing else
// does: otherwise an object that is quiet while others change would be listed each time that its
// watch ends.
func TestBookmarksAndEventsAdvanceTheVersion(t *testing.T) {
	whicheverWay(t, func(b *bench) {
		b.putMap(configMap(web, "1"))
		defer b.acquire(web)()
		next := func(version string) {
			b.t.Helper()
			b.settle()
			pass(10 * time.Second)
			b.HangUp()
			asks := b.asks()
			if got, want := asks[len(asks)-1], "watch "+version; got != want {
				b.t.Errorf("the next request is %q, want %q", got, want)
			}
		}
		next("101")
		b.Bookmark(web)
		next("200")
		for _, event := range []watch.Event{
			{Type: watch.Modified, Object: &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", ResourceVersion: "201"}}},
			{Type: watch.Deleted, Object: &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", ResourceVersion: "202"}}},
			{Type: watch.Added, Object: &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", ResourceVersion: "203"}}},
		} {
			b.Send(web, event)
			next(event.Object.(*corev1.ConfigMap).ResourceVersion)
		}
		for _, event := range []watch.Event{
			{Type: "ODD", Object: &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", ResourceVersion: "301"}}},
			{Type: watch.Modified, Object: &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", ResourceVersion: "302"}}},
			{Type: watch.Bookmark, Object: &corev1.Secret{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "303"}}},
		} {
			b.Send(web, event)
			next("203")
		}
		if got := b.Count("list"); got != 1 {
			b.t.Errorf("%d lists, want the first one only", got)
		}
		for _, r := range b.All() {
			if r.Verb == "watch" && !r.Opts.AllowWatchBookmarks {
				b.t.Error("a watch asks for no bookmarks")
			}
		}
	})
}

// TestEventsAboutOthersAreNotTaken, in case a server does not honour the selector, nor logged.
func TestEventsAboutOthersAreNotTaken(t *testing.T) {
	whicheverWay(t, func(b *bench) {
		o := b.putMap(configMap(web, "1"))
		defer b.acquire(web)()
		b.wantChanges(1)
		for _, ref := range []api.Ref{other, {Kind: api.ConfigMap, Namespace: "shared", Name: "web"}} {
			stranger := configMap(ref, hush)
			stranger.ResourceVersion = "150"
			for _, kind := range []watch.EventType{watch.Added, watch.Modified, watch.Deleted} {
				b.Send(web, watch.Event{Type: kind, Object: stranger})
			}
		}
		b.Send(web, watch.Event{Type: watch.Modified, Object: &metav1.Status{Message: hush}})
		b.Send(web, watch.Event{Type: "ODD", Object: configMap(web, hush)})
		b.Send(web, watch.Event{Type: watch.Modified, Object: &corev1.Secret{Data: map[string][]byte{"k": []byte(hush)}}})
		b.wantNow(holding(o), 0)
		if got := b.log.String(); got != "" {
			b.t.Errorf("log: %q, want none", got)
		}
	})
}

// TestBackoff: after whatever trouble the next request comes after a delay that grows, and what
// it is depends on what is known to be as it was.
func TestBackoff(t *testing.T) {
	internal := apierrors.NewInternalError(errors.New("etcd is away"))
	busy := apierrors.NewTooManyRequests("busy", 0)
	type test struct {
		trouble func(b *bench)
		want    string // The request that follows.
	}
	tests := map[string]test{
		"the server is busy":           {func(b *bench) { b.Fail(web, busy) }, "watch 101"},
		"an internal error":            {func(b *bench) { b.Fail(web, internal) }, "list 101"},
		"what is no event":             {func(b *bench) { b.SendBytes(web, []byte("<html>")) }, "list 101"},
		"a watch that is closed again": {func(b *bench) { b.HangUp(); b.Cut() }, "list 101"},
		"the server is too busy to open a watch": {
			func(b *bench) { b.Answer(nil, busy); b.HangUp(); b.settle(); b.Answer(nil, nil) }, "watch 101",
		},
		"an internal error when one is opened": {
			func(b *bench) { b.Answer(nil, internal); b.HangUp(); b.settle(); b.Answer(nil, nil) }, "list 101",
		},
		"a connection that breaks while one is opened": {
			func(b *bench) { b.Answer(nil, io.ErrUnexpectedEOF); b.HangUp(); b.settle(); b.Answer(nil, nil) }, "list 101",
		},
	}
	each(t, tests, func(b *bench, tt test) {
		o := b.putMap(configMap(web, "1"))
		defer b.acquire(web)()
		for _, least := range []time.Duration{firstRetry, 2 * firstRetry, 4 * firstRetry} {
			b.settle()
			pass(2 * time.Second) // A watch that lasts; not for long enough to start over.
			tt.trouble(b)
			before, began := len(b.asks()), time.Now()
			for len(b.asks()) == before && time.Since(began) < time.Minute {
				pass(time.Millisecond)
			}
			if got := time.Since(began); got < least || got > 2*least+time.Millisecond {
				b.t.Errorf("the next request comes after %s, want %s to %s", got, least, 2*least)
			}
			if got := b.asks()[before]; got != tt.want {
				b.t.Errorf("the next request is %q, want %q", got, tt.want)
			}
		}
		b.want(web, holding(o))
	})
}

// TestARetryWaitsAsTheServerAsks retries after the time that the API server asks for, and not
// before. Until then no trouble is reported.
func TestARetryWaitsAsTheServerAsks(t *testing.T) {
	whicheverWay(t, func(b *bench) {
		o := b.putMap(configMap(web, "1"))
		busy := apierrors.NewTooManyRequests("busy", 3)
		b.Answer(busy, busy)
		defer b.acquire(web)()
		pass(5 * time.Second)
		b.want(web, known{})
		b.Answer(nil, nil)
		pass(2 * time.Second)
		b.wantNow(holding(o), 1)
		times := b.Times("list", web)
		for i, at := range times[1:] {
			if got := at.Sub(times[i]); got < 3*time.Second {
				b.t.Errorf("it comes back after %s, want 3 s", got)
			}
		}
	})
}

// TestAConnectionThatBreaksIsNoTrouble: the watch continues from the last version, with all
// changes.
func TestAConnectionThatBreaksIsNoTrouble(t *testing.T) {
	whicheverWay(t, func(b *bench) {
		b.putMap(configMap(web, "1"))
		defer b.acquire(web)()
		b.settle()
		pass(time.Minute)
		whole := b.Front.Event(watch.Event{Type: watch.Modified, Object: configMap(web, "torn")})
		b.SendBytes(web, whole[:len(whole)/2])
		b.settle()
		b.HangUp()
		o := b.putMap(configMap(web, "2"))
		b.wantNow(holding(o), 2)
		b.wantAsked("list ", "watch 101", "watch 101")
		b.Answer(nil, io.ErrUnexpectedEOF) // The connection breaks while the next watch is opened.
		b.HangUp()
		b.want(web, holding(o))
		b.Answer(nil, nil)
		pass(longestSilence)
		b.wantAsked("list ", "watch 101", "watch 101", "watch 102", "list 102", "watch 102")
		b.wantChanges(0)
	})
}

// TestASlowStart: a server that is slow with one object's list, or with its watch, delays no other
// object, and its answer is used at last. There is one request.
func TestASlowStart(t *testing.T) {
	each(t, map[string]func(b *bench) (answer func()){
		"of a list": (*bench).Hold, "of a watch": (*bench).HoldWatches,
	}, func(b *bench, hold func(b *bench) (answer func())) {
		o := b.putMap(configMap(web, "1"))
		answer := hold(b)
		defer answer()
		defer b.acquire(web)()
		pass(30 * time.Second)
		asked := b.asks()
		var quick []*corev1.ConfigMap
		b.PassAll()
		for i := range 20 {
			ref := api.Ref{Kind: api.ConfigMap, Namespace: "default", Name: fmt.Sprint("quick-", i)}
			quick = append(quick, b.putMap(configMap(ref, "1")))
			defer b.acquire(ref)()
		}
		for _, o := range quick {
			b.want(api.Ref{Kind: api.ConfigMap, Namespace: "default", Name: o.Name}, holding(o))
		}
		if got := b.asks(); !slices.Equal(got, asked) {
			b.t.Errorf("requests %q while it waits for the answer, want none but %q", got, asked)
		}
		answer()
		b.want(web, holding(o))
		b.wantWatches(21)
	})
}
