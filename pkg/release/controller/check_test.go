package controller

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	k8stesting "k8s.io/client-go/testing"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/release"
	"github.com/liveconfig-csi/liveconfig/pkg/release/settings"
	"github.com/liveconfig-csi/liveconfig/pkg/release/validation"
	"github.com/liveconfig-csi/liveconfig/pkg/release/validation/isolated"
)

// ruled is an annotation with a rule.
const ruled = "{steps: [1], pause: 1h, validate: [{key: a, format: yaml}]}"

// checking counts checks, and has them return an error.
type checking struct {
	count atomic.Int32
	do    func(context.Context) error
}

func (c *checking) check(ctx context.Context, _ []settings.Rule, _ validation.Content) ([]validation.Problem, error) {
	c.count.Add(1)
	return nil, c.do(ctx)
}

// forever is a check that does not end by itself.
func forever(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

func fine(context.Context) error { return nil }

// restart has another controller go on where this one was.
func (f *fixture) restart(check func(context.Context) error) *checking {
	f.Helper()
	next := newFixtureOf(f.T, f.client)
	f.c, f.ctx = next.c, next.ctx
	checks := &checking{do: check}
	f.c.cfg.Check = checks.check
	return checks
}

func (f *fixture) attempt() release.Attempt {
	f.Helper()
	m, err := f.client.CoreV1().ConfigMaps("n").Get(f.Context(), "web"+release.Suffix, metav1.GetOptions{})
	if err != nil {
		f.Fatal(err)
	}
	return release.ParseAttempt(m.Annotations[release.AttemptAnnotation])
}

// edited returns a fixture whose object has an edit that is not checked yet.
func edited(t *testing.T) *fixture {
	t.Helper()
	f := newFixture(t, aPod{"one", "x", "1", false, volumes(map[string]string{"configMap": "web"})}, aPod{"two", "x", "2", false, volumes(map[string]string{"configMap": "web"})})
	f.set("web", ruled, "1")
	f.until("there is a stable copy", func() bool { return f.hasCopy("web") })
	f.set("web", ruled, "2")
	return f
}

// TestACheckThatDied counts as refused: the next controller does not check the edit again, nor the one after that. A newer edit
// is checked.
func TestACheckThatDied(t *testing.T) {
	t.Parallel()
	f := edited(t)
	f.restart(forever)
	f.until("the check is noted", func() bool { return f.attempt().Digest != "" })
	for range 3 {
		checks := f.restart(fine) // The one before was killed: it removes no note.
		f.until("the edit is refused", func() bool { return f.exposure("web").State == release.Refused })
		if got := checks.count.Load(); got != 0 {
			t.Fatalf("the edit was checked %d times again", got)
		}
	}
	want := "configmap/web: the check of this edit did not end"
	if got := f.exposure("web").Reason; !strings.HasPrefix(got, want) || !strings.Contains(got, "kubectl liveconfig release promote configmap/web -n n") {
		t.Errorf("reason = %q, want %q and a command", got, want)
	}
	if a := f.attempt(); a.Digest != "" {
		t.Errorf("the note %v is still there", a)
	}
	checks := f.restart(fine)
	f.set("web", ruled, "3")
	f.until("the next edit is shown", func() bool { return f.exposure("web").State == release.Progressing })
	if got := checks.count.Load(); got != 1 || f.attempt().Digest != "" {
		t.Errorf("the next edit was checked %d times, and the note is %v; want 1 and none", got, f.attempt())
	}
}

// TestACheckThatEndsInTheProcess: one that asks for too much is refused, and one for which there was no process is tried again.
func TestACheckThatEndsInTheProcess(t *testing.T) {
	t.Parallel()
	f := edited(t)
	busy, tries := errors.New("fork: resource temporarily unavailable"), 0
	checks := f.restart(func(context.Context) error {
		if tries++; tries < 3 {
			return busy
		}
		return &isolated.LimitError{What: "5s"}
	})
	for range 100 {
		_, _ = f.c.reconcile(f.ctx, unit{namespace: "n", alone: api.Ref{Kind: api.ConfigMap, Namespace: "n", Name: "web"}})
		if checks.count.Load() == 1 && f.attempt().Digest == "" {
			break
		}
		<-time.After(5 * time.Millisecond)
	}
	if e := f.exposure("web"); e.State == release.Refused {
		t.Fatalf("an edit for which there was no process is refused: %s", e.Reason)
	}
	f.mayFail = busy
	f.until("the edit is refused", func() bool { return f.exposure("web").State == release.Refused })
	if got := f.exposure("web").Reason; !strings.Contains(got, "5s") || checks.count.Load() != 3 {
		t.Errorf("reason = %q after %d checks, want that it takes too long, after 3", got, checks.count.Load())
	}
}

// TestAStopRemovesNotes, of a check that is under way, and of one that has ended of which nothing has followed.
func TestAStopRemovesNotes(t *testing.T) {
	t.Parallel()
	for name, check := range map[string]func(context.Context) error{"under way": forever, "ended": fine} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := edited(t)
			checks := f.restart(check)
			ctx, stop := context.WithCancel(f.ctx)
			f.ctx = ctx
			for checks.count.Load() == 0 {
				f.reconcile()
				<-time.After(time.Millisecond)
			}
			stop()
			f.c.checks.wait()
			f.c.removeNotes(ctx)
			if a := f.attempt(); a.Digest != "" {
				t.Errorf("the note %v is still there", a)
			}
			f.restart(fine)
			f.until("the edit is shown", func() bool { return f.exposure("web").State == release.Progressing })
		})
	}
}

// TestANoteOfAnotherContentIsDropped: a later edit that is equal is checked.
func TestANoteOfAnotherContentIsDropped(t *testing.T) {
	t.Parallel()
	f := edited(t)
	f.restart(forever)
	f.until("the check is noted", func() bool { return f.attempt().Digest != "" })
	f.set("web", ruled, "1") // It is taken back.
	f.restart(fine)
	f.until("the note is dropped", func() bool { return f.attempt().Digest == "" })
	f.set("web", ruled, "2")
	f.until("the edit is shown", func() bool { return f.exposure("web").State == release.Progressing })
}

// TestContentsThatWaitAreNotRead: what waits for its check takes no memory.
func TestContentsThatWaitAreNotRead(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const objects = 20
	checks := f.restart(forever)
	for i := range objects {
		f.set("web-"+string(rune('a'+i)), "{validate: [{key: a, format: yaml}]}", strings.Repeat("x", 1<<20))
	}
	f.until("all have copies", func() bool { return f.hasCopy("web-a") && f.hasCopy("web-"+string(rune('a'+objects-1))) })
	f.until("one is checked", func() bool { return checks.count.Load() == 1 })
	reads := func() (n int) {
		for _, a := range f.client.Actions() {
			if get, ok := a.(k8stesting.GetAction); ok && strings.HasSuffix(get.GetName(), release.Suffix) && a.GetResource() == corev1.SchemeGroupVersion.WithResource("configmaps") {
				n++
			}
		}
		return n
	}
	f.client.ClearActions()
	f.reconcile()
	if got := checks.count.Load(); got != 1 || reads() > 1 {
		t.Errorf("%d checks are under way, and %d copies were read; want one of the namespace", got, reads())
	}
}

// TestARefusedWrite is reported once, and the release goes on when the API server accepts it.
func TestARefusedWrite(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.set("web", "{steps: [1], pause: 1h}", "1")
	f.until("there is a stable copy", func() bool { return f.hasCopy("web") })
	errPolicy := apierrors.NewForbidden(corev1.Resource("configmaps"), "web.stable", errors.New("denied by a policy"))
	var isRefused atomic.Bool
	isRefused.Store(true)
	f.client.PrependReactor("patch", "configmaps", func(k8stesting.Action) (bool, runtime.Object, error) {
		return isRefused.Load(), nil, errPolicy
	})
	f.mayFail = errPolicy
	f.set("web", "{steps: [1], pause: 1h}", "2")
	f.until("an Event reports it", func() bool { return f.count(ReasonUnwritten) > 0 })
	for range 10 {
		f.reconcile()
	}
	if got := f.count(ReasonUnwritten); got != 1 || f.count("denied by a policy") != 1 {
		t.Errorf("%d Events report it, want 1 with the reason: %q", got, f.texts)
	}
	isRefused.Store(false)
	f.until("a step begins", func() bool { return f.exposure("web").Step == 1 })
}
