package controller

import (
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	k8stesting "k8s.io/client-go/testing"

	"github.com/liveconfig-csi/liveconfig/pkg/daemon/fairqueue"
	"github.com/liveconfig-csi/liveconfig/pkg/release"
	"github.com/liveconfig-csi/liveconfig/pkg/release/plan"
)

// newSilent returns a fixture with one pod, whose watch delivers nothing, and an edit that the pod has for a minute.
func newSilent(t *testing.T) *fixture {
	t.Helper()
	const annotation = "{steps: [1], pause: 1m}"
	f := newFixture(t, aPod{"one", "x", "1", false, volumes(map[string]string{"configMap": "web"})})
	f.client.PrependWatchReactor("pods", func(k8stesting.Action) (bool, watch.Interface, error) { return true, watch.NewFake(), nil })
	f.set("web", annotation, "1")
	f.until("there is a stable copy", func() bool { return f.hasCopy("web") })
	f.set("web", annotation, "2")
	f.until("the pod has the edit", func() bool { return f.exposure("web").Step == 1 })
	return f
}

// endStep has the step be over, and the controller have watched for longer.
func (f *fixture) endStep() {
	f.Helper()
	reads := f.c.pods.in("n").reads
	reads.mu.Lock()
	reads.known.Since = time.Now().Add(-time.Hour)
	reads.mu.Unlock()
	f.since("web", time.Now().Add(-2*time.Minute))
}

// lists counts the lists of pods.
func (f *fixture) lists() (count int) {
	for _, a := range f.client.Actions() {
		if a.Matches("list", "pods") {
			count++
		}
	}
	return count
}

// TestAFailureThatTheWatchDoesNotDeliver takes the edit back at the end of the step, and one request finds it.
func TestAFailureThatTheWatchDoesNotDeliver(t *testing.T) {
	t.Parallel()
	f := newSilent(t)
	before := f.lists()
	f.notReady("one")
	f.endStep()
	f.until("the release is over", func() bool { return f.count(ReasonReverted)+f.count(ReasonPromoted) > 0 })
	if e := f.exposure("web"); e.State != release.Reverted {
		t.Errorf("the exposure is %+v, want that it was reverted", e)
	}
	if got := f.lists() - before; got != 1 {
		t.Errorf("pods were listed %d times, want once", got)
	}
}

// TestAnAPIServerThatDoesNotAnswer ends no step. When it answers again, there is a grace and another read.
func TestAnAPIServerThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	f := newSilent(t)
	var isAway atomic.Bool
	isAway.Store(true)
	f.client.PrependReactor("list", "pods", func(k8stesting.Action) (bool, runtime.Object, error) {
		return isAway.Load(), nil, errors.New("connection refused")
	})
	reads := f.c.pods.in("n").reads
	old := time.Now().Add(-time.Minute)
	expire := func() {
		reads.mu.Lock()
		defer reads.mu.Unlock()
		reads.known.BrokenAt = old
	}
	isBrokenAgain := func() bool {
		reads.mu.Lock()
		defer reads.mu.Unlock()
		return !reads.isReading && reads.known.BrokenAt.After(old) // None under way reaches a server that is back.
	}
	f.endStep()
	for range 3 {
		expire()
		f.until("a read has failed", isBrokenAgain)
	}
	isAway.Store(false)
	f.notReady("one") // As it was reported after the outage.
	expire()
	f.until("the end of the outage is noted", isBrokenAgain)
	if f.count(ReasonPromoted) > 0 {
		t.Error("the edit is promoted without a read after the grace")
	}
	expire()
	f.until("the release is over", func() bool { return f.count(ReasonReverted)+f.count(ReasonPromoted) > 0 })
	if e := f.exposure("web"); e.State != release.Reverted {
		t.Errorf("the exposure is %+v, want that it was reverted", e)
	}
}

// TestWhatIsABreak of the connection: errors, their end, and a watch that ends early.
func TestWhatIsABreak(t *testing.T) {
	t.Parallel()
	seconds := func(s int64) *int64 { return &s }
	for name, tc := range map[string]struct {
		do   func(r *podReads)
		want bool
	}{
		"an answer":              {func(r *podReads) { r.watches(seconds(300)); r.note(nil) }, false},
		"an old version":         {func(r *podReads) { r.note(apierrors.NewResourceExpired("old")) }, false},
		"no streaming of lists":  {func(r *podReads) { r.note(apierrors.NewInvalid(schema.GroupKind{}, "", nil)) }, false},
		"no answer":              {func(r *podReads) { r.note(errors.New("refused")) }, true},
		"an overloaded server":   {func(r *podReads) { r.note(apierrors.NewTooManyRequests("busy", 1)) }, true},
		"a watch that was ended": {func(r *podReads) { r.watches(seconds(300)); r.note(nil); r.watches(seconds(300)) }, true},
		"one that ended in time": {func(r *podReads) { r.watches(seconds(0)); r.note(nil); r.watches(seconds(300)) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newPodReads()
			tc.do(r)
			if known, _ := r.of(nil); known.BrokenAt.IsZero() == tc.want {
				t.Errorf("it is broken at %s, want that it is: %t", known.BrokenAt, tc.want)
			}
			r.note(errors.New("refused"))
			failed, _ := r.of(nil)
			<-time.After(time.Millisecond)
			r.note(nil)
			if answered, _ := r.of(nil); !answered.BrokenAt.After(failed.BrokenAt) {
				t.Error("the first answer after a failure is not the end of the break")
			}
		})
	}
}

// TestASlowRead may have waited for the API server to come back, so another one follows. That may be slow.
func TestASlowRead(t *testing.T) {
	t.Parallel()
	r := newPodReads()
	began := time.Now()
	r.begin(time.Time{})
	r.end(began, slowTime, "5", map[types.UID]*cachedPod{})
	if known, _ := r.of(nil); !known.At.IsZero() || known.BrokenAt.IsZero() {
		t.Errorf("after a slow read it is %+v, want a break", known)
	}
	r.begin(time.Time{})
	r.end(began, slowTime, "6", map[types.UID]*cachedPod{})
	if known, _ := r.of(nil); !known.At.Equal(began) {
		t.Errorf("after another slow read it is %+v, want that it counts", known)
	}
}

// TestOneReadForAllWhoWantIt: those who decided to read before it ended do not read again.
func TestOneReadForAllWhoWantIt(t *testing.T) {
	t.Parallel()
	r := newPodReads()
	began := time.Now()
	if !r.begin(time.Time{}) || r.begin(time.Time{}) {
		t.Fatal("a read under way does not keep another one from beginning")
	}
	r.end(began, 0, "5", map[types.UID]*cachedPod{})
	if r.begin(time.Time{}) {
		t.Error("a read begins that was decided on before the last one ended")
	}
	if !r.begin(began) {
		t.Error("no read begins that was decided on after the last one")
	}
}

// TestTheCacheBesideARead: of each pod the newer one counts, and those that were deleted before the read are gone.
func TestTheCacheBesideARead(t *testing.T) {
	t.Parallel()
	pod := func(name, version string) *cachedPod {
		return &cachedPod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), ResourceVersion: version}, is: plan.Pod{Name: name}}
	}
	r := newPodReads()
	r.begin(time.Time{})
	r.end(time.Now(), 0, "100", map[types.UID]*cachedPod{"same": pod("same", "9"), "changed": pod("changed", "90"), "newer": pod("newer", "80"), "unseen": pod("unseen", "95")})
	cached := []any{pod("same", "9"), pod("changed", "10"), pod("newer", "101"), pod("deleted", "20"), pod("created", "102")}
	read := func() (got []string) {
		_, pods := r.of(cached)
		for _, p := range pods {
			got = append(got, p.Name+" "+p.ResourceVersion)
		}
		slices.Sort(got)
		return got
	}
	if diff := cmp.Diff("changed 90, created 102, newer 101, same 9, unseen 95", strings.Join(read(), ", ")); diff != "" {
		t.Errorf("pods (-want +got):\n%s", diff)
	}
	r.known.At = time.Now().Add(-time.Minute)
	if diff := cmp.Diff("changed 10, created 102, deleted 20, newer 101, same 9", strings.Join(read(), ", ")); diff != "" {
		t.Errorf("pods after a minute (-want +got):\n%s", diff)
	}
}

// TestAJumpOfTheClock in either direction, and no other passing of time.
func TestAJumpOfTheClock(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		wall, passed time.Duration
		want         bool
	}{
		"an hour passes":        {time.Hour, time.Hour, false},
		"the clock is adjusted": {time.Hour + 300*time.Millisecond, time.Hour, false},
		"it jumps":              {time.Hour, time.Second, true},
		"it goes back":          {-time.Hour, time.Second, true},
	} {
		var c clock
		c.look(epoch, 0)
		if jumpedAt := c.look(epoch.Add(tc.wall), tc.passed); jumpedAt.IsZero() == tc.want {
			t.Errorf("%s: it has jumped at %s, want a jump: %t", name, jumpedAt, tc.want)
		}
	}
}

// TestReadsAreCharged to the namespace, each page of them.
func TestReadsAreCharged(t *testing.T) {
	t.Parallel()
	f := newSilent(t)
	f.c.requests = fairqueue.NewAllowance(0, 10)
	pages := 0
	f.client.PrependReactor("list", "pods", func(a k8stesting.Action) (bool, runtime.Object, error) {
		options := a.(k8stesting.ListActionImpl).ListOptions //nolint:forcetypeassert // The fake client's.
		if options.ResourceVersion != "" || options.Limit == 0 {
			t.Errorf("the options are %+v, want a consistent read of a page", options)
		}
		if pages++; pages < 3 {
			return true, &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "7", Continue: "more"}}, nil
		}
		return false, nil, nil
	})
	version, pods, _, err := f.c.listPods(f.ctx, f.c.pods.in("n"), "n")
	if err != nil || version != "7" || len(pods) != 1 {
		t.Errorf("version %q, %d pods, %v, want the pods of all pages and the version of the first", version, len(pods), err)
	}
	if left := f.c.requests.Left("n"); left != 7 {
		t.Errorf("%g requests of 10 are left, want 7", left)
	}
}
