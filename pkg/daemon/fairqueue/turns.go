package fairqueue

import (
	"context"
	"sync"
)

// Turns lets a few pieces of work be done at a time. It is safe for concurrent use. Make it with
// [NewTurns] or [NewTurnsForEach].
type Turns struct {
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

// NewTurns returns turns for n at a time.
func NewTurns(n int) *Turns { return NewTurnsForEach(n, n) }

// NewTurnsForEach returns turns for n at a time, of which each tenant has at most so many: a tenant
// whose work takes long leaves the others some.
func NewTurnsForEach(n, each int) *Turns {
	return &Turns{free: n, each: each, busy: map[string]int{}}
}

// Take waits until it is the tenant's turn, and for its earlier work before that. The turn lasts
// until done is called, once. The error is that of ctx, when it ends first.
func (t *Turns) Take(ctx context.Context, tenant string) (done func(), err error) {
	w := t.enter(tenant)
	select {
	case <-w.given:
		return func() { t.pass(tenant) }, nil
	case <-ctx.Done():
		t.leave(tenant, w)
		return nil, ctx.Err()
	}
}

func (t *Turns) enter(tenant string) *waiter {
	t.mu.Lock()
	defer t.mu.Unlock()
	w := &waiter{given: make(chan struct{})}
	t.lines.push(tenant, w)
	t.giveLocked()
	return w
}

// leave ends a wait. If the waiter got its turn meanwhile, the next one gets it.
func (t *Turns) leave(tenant string, w *waiter) {
	t.mu.Lock()
	w.gone = true
	t.mu.Unlock()
	select {
	case <-w.given:
		t.pass(tenant)
	default:
	}
}

// pass gives a turn that is over to the next one.
func (t *Turns) pass(tenant string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.free++
	if t.busy[tenant]--; t.busy[tenant] == 0 {
		delete(t.busy, tenant)
	}
	t.giveLocked()
}

// giveLocked gives the free turns to those who wait.
func (t *Turns) giveLocked() {
	mayHaveOne := func(tenant string) bool { return t.busy[tenant] < t.each }
	for t.free > 0 {
		tenant, next, ok := t.lines.popOf(mayHaveOne)
		if !ok {
			return
		}
		if !next.gone {
			t.free--
			t.busy[tenant]++
			close(next.given)
		}
	}
}
