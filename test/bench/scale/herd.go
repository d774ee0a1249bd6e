package scale

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/liveconfig-csi/liveconfig/test/bench/scale/fleet"
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

// usage is what a cluster has done so far.
type usage struct {
	apiServer, etcd time.Duration // Processor time.
}

func (u usage) since(before usage) usage {
	return usage{apiServer: u.apiServer - before.apiServer, etcd: u.etcd - before.etcd}
}

func (u usage) sum() time.Duration { return u.apiServer + u.etcd }

// use reads the clocks of the cluster's processes.
func (g *ground) use() (usage, error) {
	apiServer, etcd := g.Processes()
	var u usage
	var err error
	if u.apiServer, err = processorTime(apiServer); err != nil {
		return u, err
	}
	u.etcd, err = processorTime(etcd)
	return u, err
}

// processorTime reads the kernel's clock of a process, which is exact where its files in /proc count in steps of 10 ms.
func processorTime(pid int) (time.Duration, error) {
	const schedClock = 2 // CPUCLOCK_SCHED; the rest of the number names the process.
	var at unix.Timespec
	clock := int32(^pid<<3 | schedClock) //nolint:gosec // A process ID has 22 bits at most.
	if err := unix.ClockGettime(clock, &at); err != nil {
		return 0, fmt.Errorf("read the processor time of process %d: %w", pid, err)
	}
	return time.Duration(at.Nano()), nil
}

// figures are of the API server's metrics.
type figures struct {
	watches       float64 // Of ConfigMaps, that are open.
	events, bytes float64 // That were sent to such watches.
	heap, stacks  float64 // After garbage was collected.
	rejected      float64 // Requests that were answered with 429.
}

// look reads the metrics, after garbage was collected.
func (g *ground) look(ctx context.Context) (figures, error) {
	server := g.Client().Discovery().RESTClient()
	if err := server.Get().AbsPath("/debug/pprof/heap").Param("gc", "1").Do(ctx).Error(); err != nil {
		return figures{}, fmt.Errorf("have the API server collect garbage: %w", err)
	}
	text, err := server.Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return figures{}, fmt.Errorf("read the API server's metrics: %w", err)
	}
	const configMaps = `resource="configmaps"`
	var f figures
	for _, m := range []struct {
		to     *float64
		name   string
		labels []string
	}{
		{&f.watches, "apiserver_longrunning_requests", []string{configMaps, `verb="WATCH"`}},
		{&f.events, "apiserver_watch_events_total", []string{configMaps}},
		{&f.bytes, "apiserver_watch_events_sizes_sum", []string{configMaps}},
		{&f.heap, "go_memstats_heap_alloc_bytes", nil},
		{&f.stacks, "go_memstats_stack_inuse_bytes", nil},
		{&f.rejected, "apiserver_flowcontrol_rejected_requests_total", nil},
	} {
		if *m.to, err = sum(string(text), m.name, m.labels...); err != nil {
			return figures{}, err
		}
	}
	return f, nil
}

// sum adds all series of a name that have the labels; there may be none, of what has not happened yet.
func sum(metrics, name string, labels ...string) (float64, error) {
	total := 0.0
	for l := range strings.Lines(metrics) {
		series, text, _ := strings.Cut(strings.TrimSpace(l), " ")
		rest, isOfName := strings.CutPrefix(series, name)
		if !isOfName || rest != "" && rest[0] != '{' || !containsAll(rest, labels) {
			continue
		}
		value, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return 0, fmt.Errorf("the metrics have the line %q: %w", l, err)
		}
		total += value
	}
	return total, nil
}

func containsAll(series string, labels []string) bool {
	for _, l := range labels {
		if !strings.Contains(series, l) {
			return false
		}
	}
	return true
}
