package fairqueue

import (
	"context"
	"sync"
)

// Turns lets a few pieces of work be done at a time. It is safe for concurrent use. Make it with
// [NewTurns].
type Turns struct {
	mu    sync.Mutex // Guards the fields below.
	free  int        // Invariant: nobody waits while it is above zero.
	lines lines[*waiter]
}

// waiter waits for a turn.
type waiter struct {
	given chan struct{} // Closed when it has one.
	gone  bool          // It does not wait any more.
}

// NewTurns returns turns for n at a time.
func NewTurns(n int) *Turns { return &Turns{free: n} }

// Take waits until it is the tenant's turn, and for its earlier work before that. The turn lasts
// until done is called, once. The error is that of ctx, when it ends first.
func (t *Turns) Take(ctx context.Context, tenant string) (done func(), err error) {
	w := t.enter(tenant)
	select {
	case <-w.given:
		return t.pass, nil
	case <-ctx.Done():
		t.leave(w)
		return nil, ctx.Err()
	}
}

func (t *Turns) enter(tenant string) *waiter {
	t.mu.Lock()
	defer t.mu.Unlock()
	w := &waiter{given: make(chan struct{})}
	if t.free > 0 {
		t.free--
		close(w.given)
		return w
	}
	t.lines.push(tenant, w)
	return w
}

// leave ends a wait. If the waiter got its turn meanwhile, the next one gets it.
func (t *Turns) leave(w *waiter) {
	t.mu.Lock()
	w.gone = true
	t.mu.Unlock()
	select {
	case <-w.given:
		t.pass()
	default:
	}
}

// pass gives a turn that is over to the next one.
func (t *Turns) pass() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for {
		next, ok := t.lines.pop()
		if !ok {
			t.free++
			return
		}
		if !next.gone {
			close(next.given)
			return
		}
	}
}
