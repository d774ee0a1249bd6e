package flowcontrol_test

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/liveconfig-csi/liveconfig/pkg/driver/flowcontrol"
)

// client is an asker.
type client struct {
	lane   atomic.Int64
	tenant string
}

func (c *client) Lane() flowcontrol.Lane { return flowcontrol.Lane(c.lane.Load()) }
func (c *client) Tenant() string         { return c.tenant }

// of returns a context for requests of a tenant in that lane.
func (d *desk) of(l flowcontrol.Lane, tenant string) context.Context {
	c := &client{tenant: tenant}
	c.lane.Store(int64(l))
	return flowcontrol.By(d.ctx, c)
}

// crowd makes two requests that are served, before which no other of that lane can be served.
func (d *desk) crowd(l flowcontrol.Lane) (first []*sent) {
	d.Helper()
	d.ask(flowcontrol.In(d.ctx, l), 2)
	return d.want(2, 0)
}

// wantOrder answers one request after the other with trouble, so that two are under way, and
// wants the next ones in that order.
func (d *desk) wantOrder(last *sent, want ...int) *sent {
	d.Helper()
	for _, n := range want {
		answer(http.StatusServiceUnavailable, last)
		last = d.want(1, n)[0]
	}
	return last
}

// TestALaneDoesNotWaitForTheOther, however many requests of the other one are under way or wait.
// Requests without an asker are routine.
func TestALaneDoesNotWaitForTheOther(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		many flowcontrol.Lane
		one  func(d *desk) context.Context
	}{
		"a new pod, while routine requests wait": {
			flowcontrol.Routine, func(d *desk) context.Context { return flowcontrol.In(d.ctx, flowcontrol.Awaited) },
		},
		"a routine request, while new pods wait":          {flowcontrol.Awaited, func(d *desk) context.Context { return d.ctx }},
		"one of a namespace, while its own new pods wait": {flowcontrol.Awaited, func(d *desk) context.Context { return d.of(flowcontrol.Routine, "") }},
	}
	for name, tt := range tests {
		bubbleCase(t, name, func(d *desk) {
			first := d.crowd(tt.many)
			d.ask(flowcontrol.In(d.ctx, tt.many), 20) // From 2 on.
			d.want(0, 2)
			d.ask(tt.one(d), 3)
			other := d.want(2, 22)
			d.wantOrder(other[0], 24)
			d.wantOrder(first[0], 2, 3, 4)
		})
	}
}

// TestTenantsTakeTurns within a lane: a tenant with one request does not wait for a tenant with
// many, also while the tenant has sent many in the other lane.
func TestTenantsTakeTurns(t *testing.T) {
	bubble(t, func(d *desk) {
		first := d.crowd(flowcontrol.Awaited)
		d.ask(d.of(flowcontrol.Awaited, "many"), 5) // From 2 on.
		d.ask(d.of(flowcontrol.Awaited, "one"), 1)  // 7
		d.ask(d.of(flowcontrol.Awaited, "two"), 2)  // 8 and 9
		last := d.wantOrder(first[0], 2, 7, 8, 3)
		d.ask(d.of(flowcontrol.Routine, "late"), 2) // 10 and 11
		d.want(2, 10)
		d.ask(d.of(flowcontrol.Awaited, "late"), 1) // 12
		d.wantOrder(last, 12, 9, 4, 5, 6)
	})
}

// TestARequestChangesItsLane, although it waits already: a new pod may need an object that a live
// one reads again.
func TestARequestChangesItsLane(t *testing.T) {
	bubble(t, func(d *desk) {
		first := d.crowd(flowcontrol.Routine)
		c := &client{}
		c.lane.Store(int64(flowcontrol.Routine))
		d.ask(d.ctx, 3)                    // From 2 on.
		d.ask(flowcontrol.By(d.ctx, c), 1) // 5
		last := d.wantOrder(first[0], 2)
		c.lane.Store(int64(flowcontrol.Awaited))
		answer(http.StatusServiceUnavailable, last)
		d.wantThese(3, 5)
	})
}
