package flowcontrol_test

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/driver/flowcontrol"
)

// client is an asker.
type client struct {
	urgency      atomic.Int64
	tenant, name string
}

func (c *client) Urgency() flowcontrol.Urgency { return flowcontrol.Urgency(c.urgency.Load()) }
func (c *client) Tenant() string               { return c.tenant }
func (c *client) Name() string                 { return c.name }

// of returns a context for requests of that urgency by a tenant, without a name.
func (d *desk) of(u flowcontrol.Urgency, tenant string) context.Context {
	c := &client{tenant: tenant}
	c.urgency.Store(int64(u))
	return flowcontrol.By(d.ctx, c)
}

// named returns an asker of routine requests, always with the same name.
func named() *client {
	c := &client{name: "web"}
	c.urgency.Store(int64(flowcontrol.Routine))
	return c
}

// crowd makes two requests that are served, before which no other can be served.
func (d *desk) crowd() (first []*sent) {
	d.Helper()
	d.ask(d.ctx, 2)
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

// TestTheMostUrgentGoFirst, in whatever order they were made. Requests without an asker are
// routine.
func TestTheMostUrgentGoFirst(t *testing.T) {
	bubble(t, func(d *desk) {
		first := d.crowd()
		d.ask(flowcontrol.With(d.ctx, flowcontrol.Spare), 2)
		d.ask(d.ctx, 1)
		d.ask(d.of(flowcontrol.Routine, ""), 1)
		d.ask(flowcontrol.With(d.ctx, flowcontrol.Awaited), 2)
		d.wantOrder(first[0], 6, 7, 4, 5, 2, 3)
	})
}

// TestNoUrgencyWaitsForEver: of eight requests at least one is of each urgency, however many more
// urgent ones wait.
func TestNoUrgencyWaitsForEver(t *testing.T) {
	bubble(t, func(d *desk) {
		first := d.crowd()
		d.ask(flowcontrol.With(d.ctx, flowcontrol.Spare), 2)    // 2 and 3
		d.ask(d.ctx, 2)                                         // 4 and 5
		d.ask(flowcontrol.With(d.ctx, flowcontrol.Awaited), 20) // From 6 on.
		d.wantOrder(first[0], 6, 7, 8, 9, 10, 11, 12, 2, 4, 13, 14, 15, 16, 17, 18, 3, 5, 19, 20, 21, 22, 23, 24, 25)
	})
}

// TestTenantsTakeTurns within an urgency: a tenant with one request does not wait for a tenant
// with many.
func TestTenantsTakeTurns(t *testing.T) {
	bubble(t, func(d *desk) {
		first := d.crowd()
		d.ask(d.of(flowcontrol.Awaited, "many"), 5)  // From 2 on.
		d.ask(d.of(flowcontrol.Awaited, "one"), 1)   // 7
		d.ask(d.of(flowcontrol.Awaited, "two"), 2)   // 8 and 9
		d.ask(d.of(flowcontrol.Routine, "three"), 1) // 10
		last := d.wantOrder(first[0], 2, 7, 8, 3)
		d.ask(d.of(flowcontrol.Awaited, "late"), 1) // 11
		d.wantOrder(last, 11, 9, 4, 10, 5, 6)       // Of eight requests one is routine.
	})
}

// TestARequestThatBecomesUrgentGoesFirst, although it waits already: a new pod may need an object
// that a live one reads again.
func TestARequestThatBecomesUrgentGoesFirst(t *testing.T) {
	bubble(t, func(d *desk) {
		first := d.crowd()
		c := &client{}
		c.urgency.Store(int64(flowcontrol.Spare))
		d.ask(d.ctx, 2)
		d.ask(flowcontrol.By(d.ctx, c), 1)
		last := d.wantOrder(first[0], 2)
		c.urgency.Store(int64(flowcontrol.Awaited))
		d.wantOrder(last, 4, 3)
	})
}

// TestARepeatedRequestHasItsOldPosition in the order, if the earlier request of the same name was
// not answered: its caller gave up, or the server was in trouble. An answer ends the wait.
func TestARepeatedRequestHasItsOldPosition(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		// leave ends request 2, which waits before nine others, and returns a request that is
		// under way then.
		leave func(d *desk, cancel func(), first *sent) *sent
		then  int // The request that is sent next. Request 12 repeats request 2.
	}{
		"after giving up in the queue": {func(_ *desk, cancel func(), first *sent) *sent {
			cancel()
			return first
		}, 12},
		"after giving up on the answer": {func(d *desk, cancel func(), first *sent) *sent {
			d.wantOrder(first, 2)
			cancel()
			return d.want(1, 3)[0]
		}, 12},
		"after trouble": {func(d *desk, _ func(), first *sent) *sent { return d.wantOrder(first, 2, 3) }, 12},
		"after an answer": {func(d *desk, _ func(), first *sent) *sent {
			answer(http.StatusForbidden, d.wantOrder(first, 2))
			more := d.want(3, 3)
			answer(http.StatusServiceUnavailable, more[1:]...) // So that there are two again.
			return more[0]
		}, 6},
	}
	for name, tt := range tests {
		bubbleCase(t, name, func(d *desk) {
			first := d.crowd()
			ctx, cancel := context.WithCancel(d.ctx)
			defer cancel()
			d.ask(flowcontrol.By(ctx, named()), 1)
			<-time.After(time.Millisecond)
			d.ask(d.ctx, 9)
			last := tt.leave(d, cancel, first[0])
			<-time.After(time.Millisecond)
			d.ask(flowcontrol.By(d.ctx, named()), 1)
			d.wantOrder(last, tt.then)
		})
	}
}

// TestAnOldWaitIsForgotten some minutes after its caller gave up.
func TestAnOldWaitIsForgotten(t *testing.T) {
	t.Parallel()
	for away, then := range map[time.Duration]int{5 * time.Minute: 6, 5*time.Minute + 1: 5} {
		bubbleCase(t, away.String(), func(d *desk) {
			d.crowd()
			ctx, cancel := context.WithCancel(d.ctx)
			d.ask(flowcontrol.By(ctx, named()), 1)
			cancel()
			<-time.After(away)
			d.ask(d.ctx, 3)
			first := d.want(2, 3)
			d.ask(flowcontrol.By(d.ctx, named()), 1)
			d.wantOrder(first[0], then)
		})
	}
}
