package rollout

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/rollout/workload"
)

func refIn(namespace string, i int) workload.Ref {
	return workload.Ref{Kind: workload.Deployment, Namespace: namespace, Name: fmt.Sprint(i)}
}

// TestTurns: a workload that comes while a hundred others of one namespace wait is the next but one.
//
// Fault 42.
func TestTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(0, 1)
		wantWait(t, p.turn(refIn("noisy", 0)), 0)
		for i := range 100 {
			p.turn(refIn("noisy", i+1))
		}
		if wait := p.turn(refIn("quiet", 0)); wait < 2*time.Second || wait > 2300*time.Millisecond {
			t.Errorf("has to wait %s, want 2s and a little", wait)
		}
		sleep(t, 2300*time.Millisecond)
		wantWait(t, p.turn(refIn("quiet", 0)), 0)
		wantWait(t, p.turn(refIn("noisy", 1)), 0)
		if p.turn(refIn("noisy", 2)) == 0 {
			t.Error("three passed in 2.3 seconds, want two")
		}
	})
}

// TestTurnsAreGivenUp: a workload that no longer wants its turn lets those behind it pass, and each turn is used once.
func TestTurnsAreGivenUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(0, 1)
		for i := range 12 {
			p.turn(refIn("noisy", i))
		}
		for i := range 10 {
			p.forget(refIn("noisy", i+1))
		}
		p.rest(refIn("noisy", 0), "template")
		sleep(t, 1200*time.Millisecond)
		wantWait(t, p.turn(refIn("noisy", 11)), 0)
		p.forget(refIn("noisy", 11))
		if p.turn(refIn("noisy", 11)) == 0 {
			t.Error("a turn was used twice")
		}
		p.forget(refIn("noisy", 11))
		if len(p.limiter.lines) != 0 || len(p.limiter.order) != 0 || len(p.limiter.passed) != 0 {
			t.Errorf("what nobody waits for is remembered: %+v", p.limiter)
		}
	})
}
