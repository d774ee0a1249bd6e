package rollout

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/rollout/workload"
)

var web = workload.Ref{Kind: workload.Deployment, Namespace: "default", Name: "web"}

// sleep lets the bubble's clock go on.
func sleep(t *testing.T, d time.Duration) {
	t.Helper()
	select {
	case <-time.After(d):
	case <-t.Context().Done():
	}
}

func wantWait(t *testing.T, got, want time.Duration) {
	t.Helper()
	if got != want {
		t.Errorf("has to wait %s, want %s", got, want)
	}
}

// TestQuietPeriod waits from the last change on, and not for ever.
func TestQuietPeriod(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(2*time.Second, 10)
		wantWait(t, p.wait(web, "one", "template 1"), 2*time.Second)
		sleep(t, time.Second)
		wantWait(t, p.wait(web, "one", "template 1"), time.Second)
		wantWait(t, p.wait(web, "two", "template 1"), 2*time.Second)
		sleep(t, 2*time.Second)
		wantWait(t, p.wait(web, "two", "template 1"), 0)
	})
}

func TestChangesWithoutEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, began := newPacer(2*time.Second, 10), time.Now()
		for i := range 1000 {
			if p.wait(web, string(rune('a'+i)), "template") == 0 {
				break
			}
			sleep(t, 100*time.Millisecond)
		}
		if took := time.Since(began); took != longestQuiet*2*time.Second {
			t.Errorf("it took %s, want %s", took, longestQuiet*2*time.Second)
		}
	})
}

// TestTemplateChangesToo has somebody change the workload while a change waits: the two go together.
func TestTemplateChangesToo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(time.Minute, 10)
		wantWait(t, p.wait(web, "one", "template 1"), time.Minute)
		wantWait(t, p.wait(web, "one", "template 2"), 0)
		p.rest(web, "template 2")
		wantWait(t, p.wait(web, "two", "template 2"), time.Minute)
		p.rest(web, "template 2")
		wantWait(t, p.wait(web, "three", "template 3"), 0) // Both were seen in one look.
		p.forget(web)
		wantWait(t, p.wait(web, "four", "template 4"), time.Minute)
	})
}

// TestRate lets a burst pass at once, and the rest one after the other and not in step.
func TestRate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(0, 10)
		steps := map[time.Duration]bool{}
		for i := range 60 {
			ref := web
			ref.Name = string(rune('a' + i))
			wait := p.turn(ref)
			if least := max(0, time.Duration(i-9)*100*time.Millisecond); wait < least || wait > least+least/10+time.Millisecond {
				t.Errorf("workload %d has to wait %s, want from %s to a tenth more", i, wait, least)
			}
			steps[wait.Truncate(time.Microsecond)%(100*time.Millisecond)] = true
			if again := p.turn(ref); again != wait {
				t.Errorf("workload %d has to wait %s when it asks again, want %s", i, again, wait)
			}
		}
		if len(steps) < 10 {
			t.Errorf("the waits fall on %d fractions of a second, want them spread", len(steps))
		}
	})
}

// TestTheLastOfManyIsNotLate: chance delays each by a second at most.
func TestTheLastOfManyIsNotLate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(0, 10)
		for i := range 1000 {
			least := max(0, time.Duration(i-9)*100*time.Millisecond)
			if wait := p.turn(refIn("default", i)); wait < least || wait > least+time.Second+time.Millisecond {
				t.Errorf("workload %d has to wait %s, want from %s to %s more", i, wait, least, time.Second)
			}
		}
	})
}

func TestSlowRate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(0, 0.1)
		other := web
		other.Name = "other"
		wantWait(t, p.turn(web), 0)
		if wait := p.turn(other); wait < 10*time.Second || wait > 12*time.Second {
			t.Errorf("has to wait %s, want 10s and a little", wait)
		}
	})
}
