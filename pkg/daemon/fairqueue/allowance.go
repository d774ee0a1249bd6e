package fairqueue

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// manyTenants is how many tenants an allowance remembers before it forgets those that have
// used nothing lately.
const manyTenants = 1000

// Allowance is what each tenant may use of something: a burst at once, and then a rate. Work that
// it does not cover waits, each piece of work for as long as that takes, and other tenants do not
// notice. It is safe for concurrent use. Make it with [NewAllowance].
type Allowance struct {
	perSecond rate.Limit
	burst     int

	// mu guards limits, by tenant, and charged, by work.
	mu      sync.Mutex
	limits  map[string]*rate.Limiter
	charged map[any]charge
}

// charge is when work may begin, and the cost that it was charged with.
type charge struct {
	turn time.Time
	cost int
}

// NewAllowance returns an allowance of which nothing is used.
func NewAllowance(perSecond rate.Limit, burst int) *Allowance {
	return &Allowance{perSecond: perSecond, burst: burst, limits: map[string]*rate.Limiter{}, charged: map[any]charge{}}
}

// Wait charges a tenant with the cost of some work, and returns how long the work has to wait.
// It is charged once, until it is forgotten: when it begins, or is not wanted any more. Work that
// costs more than the burst is charged with that. Work that costs more than before is charged with
// the difference, so that no work becomes larger while it waits.
func (a *Allowance) Wait(tenant string, work any, cost int) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	last, isCharged := a.charged[work]
	if cost = min(cost, a.burst); !isCharged || cost > last.cost {
		last = charge{now.Add(a.limitLocked(tenant).ReserveN(now, cost-last.cost).DelayFrom(now)), cost}
		a.charged[work] = last
	}
	return max(0, last.turn.Sub(now))
}

// Take charges a tenant if that need not wait, and reports whether it did.
func (a *Allowance) Take(tenant string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.limitLocked(tenant).Allow()
}

// Spend charges a tenant with something that has been done already. See [Allowance.Debt].
func (a *Allowance) Spend(tenant string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.limitLocked(tenant).ReserveN(time.Now(), 1)
}

// Debt returns how long a tenant has to wait until what it has spent is covered.
func (a *Allowance) Debt(tenant string) time.Duration {
	missing := -a.Left(tenant)
	return max(0, time.Duration(missing/float64(a.perSecond)*float64(time.Second)))
}

// Left returns how much of the burst a tenant has left; negative for one in debt.
func (a *Allowance) Left(tenant string) float64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.limitLocked(tenant).Tokens()
}

// Forget drops work: asked about again, it is charged again.
func (a *Allowance) Forget(work any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.charged, work)
}

// limitLocked must be called with mu held.
func (a *Allowance) limitLocked(tenant string) *rate.Limiter {
	if limit, found := a.limits[tenant]; found {
		return limit
	}
	if len(a.limits) >= manyTenants {
		for other, limit := range a.limits {
			if limit.Tokens() >= float64(a.burst) {
				delete(a.limits, other)
			}
		}
	}
	limit := rate.NewLimiter(a.perSecond, a.burst)
	a.limits[tenant] = limit
	return limit
}
