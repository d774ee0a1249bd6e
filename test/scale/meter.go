package scale

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

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
