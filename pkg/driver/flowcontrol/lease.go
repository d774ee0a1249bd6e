package flowcontrol

import (
	"context"
	"sync"
)

// lease has slots of readers beyond the end of their answers.
type lease struct {
	mu     sync.Mutex // Guards the fields below.
	isOver bool
	gates  []*Gate // Of each slot.
}

type leaseKey struct{}

func leaseOf(ctx context.Context) *lease {
	l, _ := ctx.Value(leaseKey{}).(*lease)
	return l
}

// Lease returns a context for requests whose answers have their slots until done is called, or ctx
// ends: after an answer was read it is decoded. Done may be called more than once.
func Lease(ctx context.Context) (leasing context.Context, done func()) {
	l := &lease{}
	stop := context.AfterFunc(ctx, l.end)
	return context.WithValue(ctx, leaseKey{}, l), func() {
		stop()
		l.end()
	}
}

// takeOver takes a slot over, and reports whether it did. The lease may be nil.
func (l *lease) takeOver(g *Gate) bool {
	if l == nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.isOver {
		l.gates = append(l.gates, g)
	}
	return !l.isOver
}

// end returns all slots.
func (l *lease) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, g := range l.gates {
		<-g.decoding
	}
	l.isOver, l.gates = true, nil
}
