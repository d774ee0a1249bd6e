package scale

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/liveconfig-csi/liveconfig/test/scale/fleet"
)

const (
	// patience is how long nodes may take to watch again: the kubelet's pauses grow to a minute.
	patience = 3 * time.Minute
	// aftermath is how long after it is ready a started API server is looked at, at least.
	aftermath = 15 * time.Second
)

// herd is what follows when the API server comes back after it was killed.
type herd struct {
	// outage is from the end of the server to its first answer.
	outage time.Duration
	// back are, of each node, the times from that answer until its last watch was open again; sorted.
	back []int64
	// Requests by what came of them: a success, the word to come again later, another answer, and none.
	answered, rejected, failed, refused int
	// peak is the largest number of requests that came to the server within a second.
	peak int
	// dialled is how many connections were made.
	dialled int
	// cost is the processor time of the cluster from the start of the server until some time after.
	cost  time.Duration
	until time.Duration // How long after the server was ready that was.
}

// measureHerd kills the API server and starts it again while nodes watch.
func (b *bench) measureHerd(ctx context.Context, crew *children) (herd, error) {
	if _, err := crew.take(); err != nil {
		return herd{}, err
	}
	if err := b.ground.KillAPIServer(); err != nil {
		return herd{}, err
	}
	killed := time.Now()
	if err := rest(ctx, b.cfg.Outage); err != nil {
		return herd{}, err
	}
	_, etcd := b.ground.Processes()
	before, err := processorTime(etcd)
	if err != nil {
		return herd{}, err
	}
	if err := b.ground.StartAPIServer(ctx); err != nil {
		return herd{}, err
	}
	ready := time.Now()
	seen, err := crew.await(patience)
	if err != nil {
		return herd{}, err
	}
	if err := rest(ctx, time.Until(ready.Add(aftermath))); err != nil {
		return herd{}, err
	}
	h := herdOf(seen.Requests, killed, ready)
	h.until, h.dialled = time.Since(ready), seen.Dialled
	now, err := b.ground.use()
	h.cost = now.apiServer + now.etcd - before
	return h, err
}

// herdOf makes sense of what nodes have asked for since the server was killed.
func herdOf(requests []fleet.Request, killed, ready time.Time) herd {
	var h herd
	first := ready
	var sent []time.Time
	open := map[int]time.Time{} // By node: when the last of its watches was.
	for _, r := range requests {
		switch {
		case r.Answered.Before(killed):
			continue
		case r.Code == 0:
			h.refused++
			continue
		case r.Code == http.StatusOK:
			h.answered++
			first = earlier(first, r.Answered)
		case r.Code == http.StatusTooManyRequests:
			h.rejected++
		default:
			h.failed++
		}
		sent = append(sent, r.Sent)
		if r.Verb == fleet.Watch && r.Code == http.StatusOK && r.Answered.After(open[r.Node]) {
			open[r.Node] = r.Answered
		}
	}
	h.outage = first.Sub(killed)
	for _, at := range open {
		h.back = append(h.back, int64(at.Sub(first)))
	}
	slices.Sort(h.back)
	h.peak = mostWithin(sent, time.Second)
	return h
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// mostWithin returns how many moments lie within some time of each other at most.
func mostWithin(moments []time.Time, d time.Duration) int {
	moments = slices.SortedFunc(slices.Values(moments), time.Time.Compare)
	most, begin := 0, 0
	for i, at := range moments {
		for at.Sub(moments[begin]) >= d {
			begin++
		}
		most = max(most, i-begin+1)
	}
	return most
}
