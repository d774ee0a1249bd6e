package rollout

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/rollout/workload"
)

// TestAllowance is about fault 42.
func TestAllowance(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newAllowance(10, 100)
		wantWait(t, a.wait("noisy", "one", 100), 0)
		wantWait(t, a.wait("noisy", "two", 50), 5*time.Second)
		wantWait(t, a.wait("noisy", "three", 1_000_000), 15*time.Second)
		wantWait(t, a.wait("quiet", "four", 100), 0)
		sleep(t, time.Second)
		wantWait(t, a.wait("noisy", "two", 50), 4*time.Second) // It is charged once.
		sleep(t, 4*time.Second)
		wantWait(t, a.wait("noisy", "two", 50), 0)
		wantWait(t, a.wait("noisy", "two", 50), 0)
		a.forget("two")
		wantWait(t, a.wait("noisy", "two", 10), 11*time.Second)
		wantWait(t, a.wait("noisy", "two", 30), 13*time.Second) // It has grown, and costs more.
		wantWait(t, a.wait("noisy", "two", 10), 13*time.Second)
		if a.take("noisy") || !a.take("other") {
			t.Error("take does not say whether the namespace has anything left")
		}
	})
}

// TestAllowanceForgetsNamespaces: the namespaces of a cluster may come and go without end.
func TestAllowanceForgetsNamespaces(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newAllowance(10, 100)
		wantWait(t, a.wait("busy", "work", 100), 0)
		for i := range 5 * manyNamespaces {
			if i%manyNamespaces == 0 {
				wantWait(t, a.wait("busy", i, 90), 9*time.Second)
				sleep(t, 9*time.Second)
			}
			a.take(fmt.Sprint("n", i))
		}
		if len(a.limits) > 2*manyNamespaces {
			t.Errorf("%d namespaces are remembered", len(a.limits))
		}
	})
}

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
		if len(p.turns.lines) != 0 || len(p.turns.order) != 0 || len(p.turns.passed) != 0 {
			t.Errorf("what nobody waits for is remembered: %+v", p.turns)
		}
	})
}
