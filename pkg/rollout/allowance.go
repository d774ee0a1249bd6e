package rollout

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// The limits of one namespace. Each has a burst, which is more than a namespace
// with hundreds of workloads needs, and goes on at a rate that leaves time for others.
const (
	// Bytes of volume attributes that are read.
	textBurst = 512 << 10
	textRate  = 64 << 10 // Per second.
	// Objects that the API server is asked for one by one, or that are copied. The rate is that of
	// rollouts if that is higher.
	requestBurst = 200
	requestRate  = 10 // Per second.
	// Events.
	eventBurst = 500
	eventRate  = 10 // Per second.
)

// manyNamespaces is how many namespaces an allowance remembers before it forgets those that have
// used nothing lately.
const manyNamespaces = 1000

// allowance is what each namespace may use of something. Work that it does not cover waits, each
// piece of work for as long as that takes, and other namespaces do not notice.
type allowance struct {
	perSecond rate.Limit
	burst     int

	// mu guards limits, by namespace, and charged, by work.
	mu      sync.Mutex
	limits  map[string]*rate.Limiter
	charged map[any]charge
}

// charge is when work may begin, and the cost that it was charged with.
type charge struct {
	turn time.Time
	cost int
}

func newAllowance(perSecond rate.Limit, burst int) *allowance {
	return &allowance{perSecond: perSecond, burst: burst, limits: map[string]*rate.Limiter{}, charged: map[any]charge{}}
}

// wait charges a namespace with the cost of some work, and returns how long the work has to wait.
// It is charged once, until it is forgotten: when it begins, or is not wanted any more. Work that
// costs more than the burst is charged with that. Work that costs more than before is charged with
// the difference, so that no workload becomes larger while it waits.
func (a *allowance) wait(namespace string, work any, cost int) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	last, isCharged := a.charged[work]
	if cost = min(cost, a.burst); !isCharged || cost > last.cost {
		last = charge{now.Add(a.limitLocked(namespace).ReserveN(now, cost-last.cost).DelayFrom(now)), cost}
		a.charged[work] = last
	}
	return max(0, last.turn.Sub(now))
}

// take charges a namespace if that need not wait, and reports whether it did.
func (a *allowance) take(namespace string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.limitLocked(namespace).Allow()
}

// forget drops work: asked about again, it is charged again.
func (a *allowance) forget(work any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.charged, work)
}

// limitLocked must be called with mu held.
func (a *allowance) limitLocked(namespace string) *rate.Limiter {
	if limit, found := a.limits[namespace]; found {
		return limit
	}
	if len(a.limits) >= manyNamespaces {
		for other, limit := range a.limits {
			if limit.Tokens() >= float64(a.burst) {
				delete(a.limits, other)
			}
		}
	}
	limit := rate.NewLimiter(a.perSecond, a.burst)
	a.limits[namespace] = limit
	return limit
}
