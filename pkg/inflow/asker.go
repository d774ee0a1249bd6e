package inflow

import "context"

// Urgency is which requests go before others. Nobody waits for ever: of [turnsEach] requests one is of each urgency that waits.
type Urgency int

// The urgencies, from the one that goes first.
const (
	// Awaited: somebody new waits for the answer, such as a pod that cannot start without it.
	Awaited Urgency = iota
	// Routine: what is known is looked at again. It is that of requests of which nothing is said.
	Routine
	// Spare: it may come late, or never.
	Spare
	urgencies int = iota
)

// Asker is who makes requests. Its methods are called often, by many goroutines, and must not block.
type Asker interface {
	// Urgency may change while a request waits.
	Urgency() Urgency
	// Tenant is whose request it is. Those of one urgency take turns: who has many requests waits for them alone.
	Tenant() string
	// Name is the same whenever the same is asked for: who gives up and comes back goes on where it was. An empty one is
	// nobody's.
	Name() string
}

type askerKey struct{}

// By returns a context for requests of the asker.
func By(ctx context.Context, a Asker) context.Context { return context.WithValue(ctx, askerKey{}, a) }

// With returns a context for requests of that urgency, which are no tenant's.
func With(ctx context.Context, u Urgency) context.Context { return By(ctx, anybody(u)) }

func askerOf(ctx context.Context) Asker {
	if a, ok := ctx.Value(askerKey{}).(Asker); ok {
		return a
	}
	return anybody(Routine)
}

// anybody is nobody in particular.
type anybody Urgency

func (a anybody) Urgency() Urgency { return Urgency(a) }
func (anybody) Tenant() string     { return "" }
func (anybody) Name() string       { return "" }
