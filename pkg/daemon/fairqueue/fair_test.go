package fairqueue_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/util/workqueue"

	"github.com/liveconfig-csi/liveconfig/pkg/daemon/fairqueue"
)

// tenantOf is what stands before the slash.
func tenantOf(item string) string {
	tenant, _, _ := strings.Cut(item, "/")
	return tenant
}

// newQueue returns a work queue of the items, which is shut down when the test ends.
func newQueue(t *testing.T, items ...string) workqueue.TypedRateLimitingInterface[string] {
	t.Helper()
	q := fairqueue.NewWorkQueue(tenantOf, workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Millisecond, time.Second), fairqueue.Metrics{})
	t.Cleanup(q.ShutDown)
	for _, item := range items {
		q.Add(item)
		q.Add(item) // It stays at its position.
	}
	return q
}

func take(q workqueue.TypedRateLimitingInterface[string], count int) (items []string) {
	for range count {
		item, _ := q.Get()
		q.Done(item)
		items = append(items, item)
	}
	return items
}

func TestQueueTakesTurns(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ in, want string }{
		"one tenant's items keep their order": {"a/1 a/2 a/3", "a/1 a/2 a/3"},
		"lines take turns":                    {"a/1 a/2 a/3 b/1 c/1 b/2", "a/1 b/1 c/1 a/2 b/2 a/3"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in, want := strings.Fields(test.in), strings.Fields(test.want)
			q := newQueue(t, in...)
			if diff := cmp.Diff(want, take(q, len(in))); diff != "" {
				t.Errorf("items (-want +got):\n%s", diff)
			}
			if q.Len() != 0 {
				t.Errorf("%d items wait in an empty queue", q.Len())
			}
		})
	}
}

// TestQueueIsFairToWhoComesLate: an item that comes while a thousand of another namespace wait is next but one (faults 40 and 42).
func TestQueueIsFairToWhoComesLate(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	for i := range 1000 {
		q.Add(fmt.Sprintf("busy/%d", i))
	}
	take(q, 1)
	q.Add("quiet/1")
	if got := take(q, 2); got[0] != "quiet/1" && got[1] != "quiet/1" {
		t.Errorf("the next two are %q, want quiet/1 among them", got)
	}
	if got := q.Len(); got != 998 {
		t.Errorf("%d items wait, want 998", got)
	}
}

// TestTurnsAreForAFewAtATime, and each tenant has its own line (fault 40).
func TestTurnsAreForAFewAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		semaphore := fairqueue.NewSemaphore(2)
		var mu sync.Mutex
		var order []string
		finish := make(chan struct{})
		for _, who := range []string{"a/1", "a/2", "a/3", "a/4", "b/1"} {
			go func() {
				done, err := semaphore.Take(t.Context(), tenantOf(who))
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				order = append(order, who)
				mu.Unlock()
				<-finish
				done()
			}()
			synctest.Wait()
		}
		if diff := cmp.Diff([]string{"a/1", "a/2"}, order); diff != "" {
			t.Errorf("at work (-want +got):\n%s", diff)
		}
		for range 5 {
			finish <- struct{}{}
			synctest.Wait()
		}
		if diff := cmp.Diff([]string{"a/1", "a/2", "a/3", "b/1", "a/4"}, order); diff != "" {
			t.Errorf("all (-want +got):\n%s", diff)
		}
	})
}

// TestATenantHasSoManyTurns: what one tenant has more waits, also while a turn is free, and others do not wait for it.
func TestATenantHasSoManyTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		semaphore := fairqueue.NewSemaphoreForEach(2, 1)
		order := make(chan string, 10)
		finish := map[string]chan struct{}{}
		for _, who := range []string{"a/1", "a/2", "a/3", "b/1", "c/1"} {
			finish[who] = make(chan struct{})
			go func() {
				done, err := semaphore.Take(t.Context(), tenantOf(who))
				if err != nil {
					t.Error(err)
					return
				}
				order <- who
				<-finish[who]
				done()
			}()
			synctest.Wait()
		}
		want := func(want ...string) {
			t.Helper()
			synctest.Wait()
			var got []string
			for len(order) > 0 {
				got = append(got, <-order)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("got turns (-want +got):\n%s", diff)
			}
		}
		want("a/1", "b/1")
		close(finish["b/1"])
		want("c/1")
		close(finish["c/1"])
		want()
		close(finish["a/1"])
		want("a/2")
		close(finish["a/2"])
		want("a/3")
		close(finish["a/3"])
	})
}

// TestTurnsOfThoseWhoLeave are the next one's.
func TestTurnsOfThoseWhoLeave(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		semaphore := fairqueue.NewSemaphore(1)
		done, err := semaphore.Take(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		ctx, leave := context.WithCancel(t.Context())
		left := make(chan error, 1)
		go func() {
			_, err := semaphore.Take(ctx, "b")
			left <- err
		}()
		synctest.Wait()
		next := make(chan func(), 1)
		go func() {
			done, err := semaphore.Take(t.Context(), "c")
			if err != nil {
				t.Error(err)
			}
			next <- done
		}()
		synctest.Wait()
		leave()
		if err := <-left; !errors.Is(err, context.Canceled) {
			t.Errorf("Take = %v, want that its context has ended", err)
		}
		done()
		(<-next)()
		if done, err = semaphore.Take(t.Context(), "d"); err != nil {
			t.Fatal(err)
		}
		done()
	})
}

// TestTurnsAreNotLost when contexts end at any moment.
func TestTurnsAreNotLost(t *testing.T) {
	t.Parallel()
	semaphore := fairqueue.NewSemaphore(2)
	var all sync.WaitGroup
	for i := range 200 {
		all.Go(func() {
			ctx, cancel := context.WithCancel(t.Context())
			go cancel()
			if done, err := semaphore.Take(ctx, fmt.Sprint(i%7)); err == nil {
				done()
			}
			cancel()
		})
	}
	all.Wait()
	for range 2 {
		if _, err := semaphore.Take(t.Context(), "last"); err != nil {
			t.Fatal(err)
		}
	}
}
