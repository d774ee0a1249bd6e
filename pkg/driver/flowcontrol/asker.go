package flowcontrol

import "context"

// Urgency decides which requests go first. No urgency waits for ever: of eight requests that are
// sent, at least one is of each urgency for which requests wait.
type Urgency int

// The urgencies. A more urgent one comes first.
const (
	// Awaited: something new waits for the answer, such as a pod that cannot start without it.
	Awaited Urgency = iota
	// Routine: the answer confirms or updates what is known. Requests without an [Asker] are
	// routine.
	Routine
	// Spare: the answer may come late, or never.
	Spare
	urgencies int = iota
)

// Asker describes requests before they are sent. Many goroutines call its methods, often and with a
// lock held: the methods must not block.
type Asker interface {
	// Urgency may change while a request waits.
	Urgency() Urgency
	// Tenant is whose request it is. Tenants alternate within an urgency, so that a tenant with
	// many requests does not delay the others.
	Tenant() string
	// Name identifies what is asked for. A request that repeats an unanswered one of the same name
	// takes its position in the order. Requests with an empty name are not recognized.
	Name() string
}

type askerKey struct{}

// By returns a context for requests that the asker describes.
func By(ctx context.Context, a Asker) context.Context { return context.WithValue(ctx, askerKey{}, a) }

// With returns a context for requests of that urgency, without a tenant or a name.
func With(ctx context.Context, u Urgency) context.Context { return By(ctx, plain(u)) }

func askerOf(ctx context.Context) Asker {
	if a, ok := ctx.Value(askerKey{}).(Asker); ok {
		return a
	}
	return plain(Routine)
}

// plain is an asker with nothing but an urgency.
type plain Urgency

// Urgency implements [Asker].
func (p plain) Urgency() Urgency { return Urgency(p) }

// Tenant implements [Asker].
func (plain) Tenant() string { return "" }

// Name implements [Asker].
func (plain) Name() string { return "" }
