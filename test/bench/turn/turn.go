// Package turn has the parts of the benchmark that wait for most of their time do what they do one after the other, so that
// they can wait together and none disturbs what another measures.
//
// It does not know the parts.
package turn

import "context"

// Turn is had by one at a time. Anyone who asks first has it first.
type Turn struct {
	taken chan struct{}
}

// New returns a turn that nobody has.
func New() *Turn { return &Turn{taken: make(chan struct{}, 1)} }

// Do waits for the turn, and has it while work runs.
func (t *Turn) Do(ctx context.Context, work func(context.Context) error) error {
	select {
	case t.taken <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-t.taken }()
	return work(ctx)
}
