package workloop_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"

	"github.com/liveconfig-csi/liveconfig/pkg/daemon/workloop"
)

// TestLoop: what goes wrong with one key is tried again, later each time, and logged once for each try unless it is expected.
// Other keys are worked on meanwhile.
//
// Fault 49.
func TestLoop(t *testing.T) {
	t.Parallel()
	conflict := apierrors.NewConflict(corev1.Resource("nodes"), "a", nil)
	for name, tc := range map[string]struct {
		fail   func() error
		line   string // Of the log, for each failure; empty for none.
		panics float64
	}{
		"an error":                  {func() error { return errors.New("broken") }, `err="broken" key="bad"`, 0},
		"a panic":                   {func() error { panic("poisoned") }, `err="panic: poisoned" key="bad" stack=`, 3},
		"a panic inside of a check": {func() error { return workloop.Recover(func() error { panic("poisoned") }) }, `err="panic: poisoned"`, 3},
		"a conflict":                {func() error { return conflict }, "", 0},
		"a cache that is behind":    {func() error { return workloop.ErrBehind }, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { testFailure(t, tc.fail, tc.line, tc.panics) })
		})
	}
}

func testFailure(t *testing.T, fail func() error, line string, wantPanics float64) {
	t.Helper()
	var log bytes.Buffer
	ctx := klog.NewContext(t.Context(), textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(&log))))
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Second, time.Minute))
	registry := prometheus.NewRegistry()
	panics, err := workloop.NewPanics(registry, "things")
	if err != nil {
		t.Fatal(err)
	}
	began, failures := time.Now(), 3
	var got []string
	loop := workloop.Loop[string]{Queue: queue, Panics: panics, Name: "things", Do: func(_ context.Context, key string) error {
		got = append(got, key+" "+time.Since(began).String())
		if failures > 0 && key == "bad" {
			failures--
			return fail()
		}
		return nil
	}}
	queue.Add("bad")
	queue.Add("good")
	ended := make(chan struct{})
	go func() { defer close(ended); loop.Run(ctx) }()
	<-time.After(time.Minute)
	synctest.Wait()
	queue.ShutDown()
	<-ended
	if diff := cmp.Diff([]string{"bad 0s", "good 0s", "bad 1s", "bad 3s", "bad 7s"}, got); diff != "" {
		t.Errorf("work (-want +got):\n%s", diff)
	}
	lines := strings.Count(log.String(), "Will try again")
	if line == "" && lines != 0 || line != "" && (lines != 3 || strings.Count(log.String(), line) != 3) {
		t.Errorf("the log is %q, want three lines with %q", log.String(), line)
	}
	families, err := registry.Gather()
	if err != nil || len(families) != 1 || families[0].GetMetric()[0].GetCounter().GetValue() != wantPanics {
		t.Errorf("the metrics are %v, %v, want %g panics", families, err, wantPanics)
	}
}

// TestTheEndIsNoFailure: work that fails because the program ends is not reported.
func TestTheEndIsNoFailure(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	ctx, stop := context.WithCancel(klog.NewContext(t.Context(), textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(&log)))))
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
	loop := workloop.Loop[string]{Queue: queue, Do: func(ctx context.Context, _ string) error {
		stop()
		queue.ShutDown()
		return ctx.Err()
	}}
	queue.Add("a")
	loop.Run(ctx)
	if log.Len() > 0 {
		t.Errorf("the log is %q, want none", log.String())
	}
}

// TestOnChange: a handler gets objects, not tombstones, and a panic over one of them concerns no other.
func TestOnChange(t *testing.T) {
	t.Parallel()
	one, two := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "one"}}, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "two"}}
	var got [][2]any
	handler := workloop.OnChange(func(old, now any) {
		if now == two {
			panic("poisoned")
		}
		got = append(got, [2]any{old, now})
	})
	handler.OnAdd(one, true)
	handler.OnUpdate(one, two)
	handler.OnUpdate(two, one)
	handler.OnDelete(one)
	handler.OnDelete(cache.DeletedFinalStateUnknown{Key: "two", Obj: two})
	if diff := cmp.Diff([][2]any{{nil, one}, {two, one}, {one, nil}, {two, nil}}, got); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
}
