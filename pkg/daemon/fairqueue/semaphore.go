package fairqueue

import (
	"context"
	"sync"
)

// Semaphore limits how many pieces of work run at a time, and is fair to tenants. It is safe for
// concurrent use. Make it with [NewSemaphore] or [NewSemaphoreForEach].
type Semaphore struct {
	each int // How many one tenant may have at a time.

	mu    sync.Mutex // Guards the fields below.
	free  int
	busy  map[string]int // The turns that tenants have. None is zero.
	lines lines[*waiter]
}

// waiter waits for a turn.
type waiter struct {
	given chan struct{} // Closed when it has one.
	gone  bool          // It does not wait any more.
}

// NewSemaphore returns a semaphore that lets n pieces of work run at a time.
func NewSemaphore(n int) *Semaphore { return NewSemaphoreForEach(n, n) }

// NewSemaphoreForEach returns a semaphore that lets n pieces of work run at a time, and at most
// each of one tenant: a tenant whose work takes long leaves the others some.
func NewSemaphoreForEach(n, each int) *Semaphore {
	return &Semaphore{free: n, each: each, busy: map[string]int{}}
}

// Take waits until it is the tenant's turn, and for its earlier work before that. The turn lasts
// until done is called, once. The error is that of ctx, when it ends first.
func (s *Semaphore) Take(ctx context.Context, tenant string) (done func(), err error) {
	w := s.enter(tenant)
	select {
	case <-w.given:
		return func() { s.pass(tenant) }, nil
	case <-ctx.Done():
		s.leave(tenant, w)
		return nil, ctx.Err()
	}
}

func (s *Semaphore) enter(tenant string) *waiter {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := &waiter{given: make(chan struct{})}
	s.lines.push(tenant, w)
	s.giveLocked()
	return w
}

// leave ends a wait. If the waiter got its turn meanwhile, the next one gets it.
func (s *Semaphore) leave(tenant string, w *waiter) {
	s.mu.Lock()
	w.gone = true
	s.mu.Unlock()
	select {
	case <-w.given:
		s.pass(tenant)
	default:
	}
}

// pass gives a turn that is over to the next one.
func (s *Semaphore) pass(tenant string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free++
	if s.busy[tenant]--; s.busy[tenant] == 0 {
		delete(s.busy, tenant)
	}
	s.giveLocked()
}

// giveLocked gives the free turns to those who wait.
func (s *Semaphore) giveLocked() {
	mayHaveOne := func(tenant string) bool { return s.busy[tenant] < s.each }
	for s.free > 0 {
		tenant, next, ok := s.lines.popOf(mayHaveOne)
		if !ok {
			return
		}
		if !next.gone {
			s.free--
			s.busy[tenant]++
			close(next.given)
		}
	}
}
