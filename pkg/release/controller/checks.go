package controller

import (
	"context"
	"sync"

	"k8s.io/klog/v2"

	"github.com/liveconfig-csi/liveconfig/pkg/daemon/fairqueue"
	"github.com/liveconfig-csi/liveconfig/pkg/daemon/logkeys"
	"github.com/liveconfig-csi/liveconfig/pkg/daemon/workloop"
)

// checks check edits beside the workers, which must be free to take an edit back while a check
// takes long. A few checks run at a time, of which a namespace has one at most: so one whose checks
// all take as long as they may does not hold up the others.
type checks struct {
	limit   *fairqueue.Semaphore
	running sync.WaitGroup

	mu    sync.Mutex // Guards units.
	units map[unit]*checked
}

// checked is the check of one set of candidates.
type checked struct {
	of      string // Stands for the candidates and their rules.
	isDone  bool
	refused string // Why they are refused; empty for no reason.
	err     error  // Why it is not known.
}

// checksAtATime is how many processes may check. Each takes memory from the controller's container.
const checksAtATime = 2

func newChecks() *checks {
	return &checks{limit: fairqueue.NewSemaphoreForEach(checksAtATime, 1), units: map[unit]*checked{}}
}

// task is what has to be checked of a unit.
type task struct {
	unit unit
	of   string
	// do checks, and returns why the candidates are refused. It reads what it checks: many checks
	// may wait for their turns, and each content may have a megabyte.
	do func(context.Context) (refused string, err error)
	// done is called when the result is there.
	done func(unit)
}

// result returns the result of a check. If it is missing, the check begins, unless an older one of
// the unit is under way.
func (c *checks) result(ctx context.Context, t task) (refused string, isDone bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	last := c.units[t.unit]
	switch {
	case last != nil && !last.isDone:
		return "", false, nil
	case last != nil && last.of == t.of && last.err == nil:
		return last.refused, true, nil
	case last != nil && last.of == t.of:
		delete(c.units, t.unit) // It is tried again, when the worker does.
		return "", true, last.err
	}
	next := &checked{of: t.of}
	c.units[t.unit] = next
	c.running.Go(func() {
		refused, err := c.run(ctx, t)
		c.mu.Lock()
		next.isDone, next.refused, next.err = true, refused, err
		c.mu.Unlock()
		t.done(t.unit)
	})
	return "", false, nil
}

// begin begins a check whose result nobody waits for.
func (c *checks) begin(ctx context.Context, t task) {
	c.running.Go(func() {
		if _, err := c.run(ctx, t); err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "An object that is released from now on was not checked", logkeys.Key,
				t.unit.String())
		}
	})
}

func (c *checks) run(ctx context.Context, t task) (refused string, err error) {
	giveBack, err := c.limit.Take(ctx, t.unit.namespace)
	if err != nil {
		return "", err
	}
	defer giveBack()
	err = workloop.Recover(func() error {
		refused, err = t.do(ctx)
		return err
	})
	return refused, err
}

func (c *checks) forget(u unit) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if last := c.units[u]; last != nil && last.isDone {
		delete(c.units, u)
	}
}

// wait returns when no check runs. The context of them must have ended.
func (c *checks) wait() { c.running.Wait() }
