package flowcontrol

import "context"

// Lane is a group of requests with its own slots: requests of one lane never wait for those of
// another.
type Lane int

// The lanes.
const (
	// Awaited: something new waits for the answer, such as a pod that cannot start without it.
	Awaited Lane = iota
	// Routine: the answer confirms or updates what is known. Requests without an [Asker] are
	// routine.
	Routine
	lanes int = iota
)

// Asker describes requests before they are sent. Many goroutines call its methods, often and with a
// lock held: the methods must not block.
type Asker interface {
	// Lane may change while a request waits.
	Lane() Lane
	// Tenant is whose request it is. Tenants take turns within a lane, so that a tenant with many
	// requests does not delay the others.
	Tenant() string
}

type askerKey struct{}

// By returns a context for requests that the asker describes.
func By(ctx context.Context, a Asker) context.Context { return context.WithValue(ctx, askerKey{}, a) }

// In returns a context for requests in that lane, without a tenant.
func In(ctx context.Context, l Lane) context.Context { return By(ctx, l) }

func askerOf(ctx context.Context) Asker {
	if a, ok := ctx.Value(askerKey{}).(Asker); ok {
		return a
	}
	return Routine
}

// Lane implements [Asker].
func (l Lane) Lane() Lane { return l }

// Tenant implements [Asker].
func (Lane) Tenant() string { return "" }
