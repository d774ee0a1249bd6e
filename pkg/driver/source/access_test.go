package source_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/api/identity"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/access"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/objectwatch/fakeserver"
)

var (
	runner = api.Pod{Namespace: "default", Name: "web-0", UID: "uid", ServiceAccount: "runner"}
	behalf = identity.OnBehalf(runner)
)

// denied returns the denial of a service account.
func denied() error {
	return apierrors.NewForbidden(corev1.Resource("configmaps"), "web", errors.New("serviceaccount default/runner may not get it"))
}

// unreviewed returns the error of a review that failed, because the driver itself may not ask.
func unreviewed() error {
	return &access.ReviewError{Identity: behalf, Ref: web, Cause: forbidden()}
}

// wantStory compares the requests for a ref so far, and the questions before them.
func (b *bench) wantStory(ref api.Ref, want ...string) {
	b.t.Helper()
	b.settle()
	if diff := cmp.Diff(want, b.Story(ref)); diff != "" {
		b.t.Errorf("requests for %s (-want +got):\n%s", ref, diff)
	}
}

// wantForbidden checks whether the trouble with a ref is that it may not be read, by which its
// files may go.
func (b *bench) wantForbidden(ref api.Ref, want string) {
	b.t.Helper()
	b.settle()
	got := "no error"
	switch err := b.Get(b.key(ref)).Err; {
	case apierrors.IsForbidden(err):
		got = "forbidden"
	case err != nil:
		got = "another error"
	}
	if got != want {
		b.t.Errorf("what is wrong with %s: %s, %v; want %s", ref, got, b.Get(b.key(ref)).Err, want)
	}
}

// TestItIsAskedBeforeEachRequest, of every identity: the cache does not decide which identities
// need a review. The bench compares the identity.
func TestItIsAskedBeforeEachRequest(t *testing.T) {
	t.Parallel()
	for _, id := range []identity.Identity{identity.Driver(), identity.Of(runner), behalf} {
		t.Run(id.String(), func(t *testing.T) {
			bubbleOf(t, id, func(b *bench) {
				o := b.putMap(configMap(web, "1"))
				defer b.acquire(web)()
				defer b.acquire(cert)()
				want := []string{fakeserver.Asking, "list", fakeserver.Asking, "watch"}
				b.wantStory(web, want...)
				b.wantStory(cert, want...)
				pass(time.Minute)
				b.HangUp() // The watch is opened again.
				want = append(want, fakeserver.Asking, "watch")
				b.wantStory(web, want...)
				b.wantStory(cert, want...)
				pass(time.Minute)
				b.Fail(web, apierrors.NewResourceExpired("too old")) // The object is listed again.
				pass(longestSilence)
				b.wantStory(web, append(want, fakeserver.Asking, "list", fakeserver.Asking, "watch")...)
				b.wantStory(cert, want...)
				b.want(web, holding(o))
			})
		})
	}
}

// refusals returns a denial, and a review that failed, which is not a denial.
func refusals() map[string]refusal {
	return map[string]refusal{
		"denied":        {denied(), "forbidden", true, 1},
		"not found out": {unreviewed(), "another error", false, 0},
	}
}

// refusal is an answer to the question whether a request may be made.
type refusal struct {
	err     error
	want    string
	revoked bool // In the end.
	changes int  // Until then.
}

// TestWhatIsDeniedIsNotRead, by any sort of request, however often it is retried. An object whose
// review failed is not read either.
func TestWhatIsDeniedIsNotRead(t *testing.T) {
	each(t, behalf, refusals(), func(b *bench, r refusal) {
		o := b.putMap(configMap(web, "1"))
		b.deny(r.err)
		defer b.acquire(web)()
		b.wantForbidden(web, r.want)
		b.wantChanges(web, 1)
		b.want(web, known{Err: r.err.Error()})
		b.wantAfter(10*time.Minute, known{Err: r.err.Error(), Revoked: r.revoked}, r.changes)
		if got := b.Requested(web); len(got) != 0 {
			b.t.Errorf("requests: %v, want none", got)
		}
		if got := b.Count(fakeserver.Asking); got < 50 {
			b.t.Errorf("asked %d times in ten minutes, want it asked all the time", got)
		}

		b.deny(nil)
		b.wantAfter(longestSilence, holding(o), 2)
		b.wantWatches(web, 1, 1)
	})
}

// TestADeniedReaderGetsNoNewWatch: that is how a loss is found that an open watch does
// not notice. It is known at once, and what was read stays.
func TestADeniedReaderGetsNoNewWatch(t *testing.T) {
	each(t, behalf, refusals(), func(b *bench, r refusal) {
		o := b.putMap(configMap(web, "1"))
		defer b.acquire(web)()
		b.wantChanges(web, 1)
		pass(time.Minute)
		b.deny(r.err)
		b.HangUp()
		b.wantForbidden(web, r.want)
		troubled := holding(o).with(r.err)
		b.wantNow(troubled, 1)
		pass(10 * time.Minute)
		troubled.Revoked = r.revoked
		b.wantNow(troubled, r.changes)
		if diff := cmp.Diff([]string{"list", "watch"}, b.Requested(web)); diff != "" {
			b.t.Errorf("requests (-want +got):\n%s", diff)
		}

		b.deny(nil)
		b.wantAfter(longestSilence, holding(o), 1)
	})
}

// TestTheDriverThatMayNotReadForAPodPolls: what a pod may get is asked for, and the driver's own
// rights are the API server's to check.
func TestTheDriverThatMayNotReadForAPodPolls(t *testing.T) {
	bubbleOf(t, behalf, func(b *bench) {
		o := b.putMap(configMap(web, "1"))
		b.Answer(forbidden(), forbidden())
		b.AnswerGets(nil)
		defer b.acquire(web)()
		pass(untilPolled)
		b.want(web, polling(holding(o)))
		reads := b.Count("get")
		b.wantStory(web, slices.Repeat([]string{fakeserver.Asking, "list", "get"}, reads)...)
		b.deny(denied())
		pass(longestPause)
		b.wantForbidden(web, "forbidden")
		b.wantStory(web, append(slices.Repeat([]string{fakeserver.Asking, "list", "get"}, reads),
			slices.Repeat([]string{fakeserver.Asking}, b.Count(fakeserver.Asking)-reads)...)...)
	})
}
