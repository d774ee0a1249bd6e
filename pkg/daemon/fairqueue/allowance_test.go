package fairqueue

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// TestAllowance is about fault 42.
func TestAllowance(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := NewAllowance(10, 100)
		wantWait(t, a.Wait("noisy", "one", 100), 0)
		wantWait(t, a.Wait("noisy", "two", 50), 5*time.Second)
		wantWait(t, a.Wait("noisy", "three", 1_000_000), 15*time.Second)
		wantWait(t, a.Wait("quiet", "four", 100), 0)
		<-time.After(time.Second)
		wantWait(t, a.Wait("noisy", "two", 50), 4*time.Second) // It is charged once.
		<-time.After(4 * time.Second)
		wantWait(t, a.Wait("noisy", "two", 50), 0)
		wantWait(t, a.Wait("noisy", "two", 50), 0)
		a.Forget("two")
		wantWait(t, a.Wait("noisy", "two", 10), 11*time.Second)
		wantWait(t, a.Wait("noisy", "two", 30), 13*time.Second) // It has grown, and costs more.
		wantWait(t, a.Wait("noisy", "two", 10), 13*time.Second)
		if a.Take("noisy") || !a.Take("other") {
			t.Error("Take does not say whether the namespace has anything left")
		}
	})
}

// TestAllowanceForgetsTenants: the namespaces of a cluster may come and go without end.
func TestAllowanceForgetsTenants(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := NewAllowance(10, 100)
		wantWait(t, a.Wait("busy", "work", 100), 0)
		for i := range 5 * manyTenants {
			if i%manyTenants == 0 {
				wantWait(t, a.Wait("busy", i, 90), 9*time.Second)
				<-time.After(9 * time.Second)
			}
			a.Take(fmt.Sprint("n", i))
		}
		if len(a.limits) > 2*manyTenants {
			t.Errorf("%d namespaces are remembered", len(a.limits))
		}
	})
}

// TestDebt: what is spent beyond the burst has to be covered first, by the tenant alone.
func TestDebt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := NewAllowance(10, 100)
		for range 100 {
			a.Spend("noisy")
		}
		wantWait(t, a.Debt("noisy"), 0)
		for range 50 {
			a.Spend("noisy")
		}
		wantWait(t, a.Debt("noisy"), 5*time.Second)
		wantWait(t, a.Debt("quiet"), 0)
		<-time.After(5 * time.Second)
		wantWait(t, a.Debt("noisy"), 0)
	})
}

func wantWait(t *testing.T, got, want time.Duration) {
	t.Helper()
	if diff := got - want; diff < -time.Millisecond || diff > time.Millisecond {
		t.Errorf("the wait is %v, want %v", got, want)
	}
}
