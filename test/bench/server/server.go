// Package server measures what drivers cost the API server.
//
// It does not know how the driver works.
package server

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/liveconfig-csi/liveconfig/test/bench/driver"
	"github.com/liveconfig-csi/liveconfig/test/bench/metrics"
	"github.com/liveconfig-csi/liveconfig/test/bench/report"
	"github.com/liveconfig-csi/liveconfig/test/bench/site"
	"github.com/liveconfig-csi/liveconfig/test/kit/cluster"
)

// Config says what to measure. All fields are required.
type Config struct {
	Site *site.Site
	// Nodes are the numbers of drivers, from the smallest on. Each has Volumes of one object.
	Nodes   []int
	Volumes int
	// Edits are made for each of them.
	Edits int
}

const (
	namespace   = "bench-server"
	object      = "shared"
	objectBytes = 1 << 10
	// interval is between edits.
	interval = 200 * time.Millisecond
	// settle is for what goes on after something was done.
	settle = time.Second
)

// Measure returns what it has found. Nothing of it has a bound: it is to grow with the nodes, and with nothing else.
func Measure(ctx context.Context, cfg Config) (_ report.Section, _ []report.Target, err error) {
	b := &bench{cfg: cfg}
	defer func() { err = errors.Join(err, b.close()) }()
	if err := cfg.Site.CreateNamespace(ctx, namespace); err != nil {
		return report.Section{}, nil, err
	}
	if err := cfg.Site.CreateConfigMaps(ctx, namespace, strings.Repeat("x", objectBytes), object); err != nil {
		return report.Section{}, nil, err
	}
	for _, n := range cfg.Nodes {
		if err := b.grow(ctx, n); err != nil {
			return report.Section{}, nil, fmt.Errorf("start %d drivers: %w", n, err)
		}
		if err := b.measure(ctx); err != nil {
			return report.Section{}, nil, fmt.Errorf("edit what %d drivers watch: %w", n, err)
		}
	}
	return b.section(), nil, nil
}

// bench is one measurement.
type bench struct {
	cfg     Config
	drivers []*driver.Driver
	found   []cost // By the numbers of nodes.
}

// cost is what one edit costs the API server.
type cost struct {
	watches        float64 // That are open, of ConfigMaps.
	events, bytes  float64 // That were sent to watches.
	processorShare float64 // Seconds of processor time.
	requests       float64 // That drivers have made.
}

func (b *bench) grow(ctx context.Context, n int) error {
	for len(b.drivers) < n {
		d, err := driver.Start(ctx, b.cfg.Site)
		if err != nil {
			return err
		}
		b.drivers = append(b.drivers, d)
		for range b.cfg.Volumes {
			if err := d.PublishAll(ctx, driver.Pod(namespace, object)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *bench) close() error {
	var errs []error
	for _, d := range b.drivers {
		errs = append(errs, d.Close())
	}
	return errors.Join(errs...)
}

// measure makes edits and asks the API server what it did.
func (b *bench) measure(ctx context.Context) error {
	if err := site.Rest(ctx, settle); err != nil { // Drivers have just been started.
		return err
	}
	begin := time.Now()
	before, err := b.look(ctx)
	if err != nil {
		return err
	}
	if err := b.cfg.Site.Edit(ctx, namespace, object, objectBytes, b.cfg.Edits, interval); err != nil {
		return err
	}
	if err := site.Rest(ctx, settle); err != nil {
		return err
	}
	after, err := b.look(ctx)
	if err != nil {
		return err
	}
	requests, err := b.requests(begin)
	if err != nil {
		return err
	}
	edits := float64(b.cfg.Edits)
	b.found = append(b.found, cost{
		requests: float64(requests) / edits,
		watches:  after.watches, events: (after.events - before.events) / edits, bytes: (after.bytes - before.bytes) / edits,
		processorShare: (after.processorShare - before.processorShare) / edits,
	})
	b.cfg.Site.Say("%d drivers: %.1f events an edit", len(b.drivers), b.found[len(b.found)-1].events)
	return nil
}

// requests returns how many requests drivers have made since a moment, by the audit log.
func (b *bench) requests(since time.Time) (int, error) {
	all, err := b.cfg.Site.Requests(since)
	if err != nil {
		return 0, err
	}
	n := 0
	for _, r := range all {
		if r.Stage == cluster.StageReceived && r.User == driver.User() {
			n++
		}
	}
	return n, nil
}

func (b *bench) look(ctx context.Context) (cost, error) {
	text, err := b.cfg.Site.Client().Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return cost{}, fmt.Errorf("read the API server's metrics: %w", err)
	}
	var c cost
	for _, m := range []struct {
		to     *float64
		name   string
		labels []string
	}{
		{&c.watches, "apiserver_longrunning_requests", []string{`resource="configmaps"`, `verb="WATCH"`}},
		{&c.events, "apiserver_watch_events_total", []string{`resource="configmaps"`}},
		{&c.bytes, "apiserver_watch_events_sizes_sum", []string{`resource="configmaps"`}},
		{&c.processorShare, "process_cpu_seconds_total", nil},
	} {
		if *m.to, err = metrics.Sum(string(text), m.name, m.labels...); err != nil {
			return cost{}, err
		}
	}
	return c, nil
}

func (b *bench) section() report.Section {
	table := report.Table{
		Title:  fmt.Sprintf("One edit of a ConfigMap of 1 KiB, in %d volumes of each node", b.cfg.Volumes),
		Header: []string{"nodes", "open watches of ConfigMaps", "events an edit", "bytes an edit", "requests of drivers an edit", "API server's processor time an edit"},
	}
	chart := report.Chart{Key: "bytes", Title: "Bytes that the API server sends for an edit", X: "nodes", Y: "bytes"}
	curve := report.Curve{Name: "all watches of ConfigMaps"}
	for i, c := range b.found {
		table.Rows = append(table.Rows, []string{
			fmt.Sprint(b.cfg.Nodes[i]), report.Count.Format(c.watches), report.Count.Format(c.events),
			report.Bytes.Format(c.bytes), report.Count.Format(c.requests), report.Nanoseconds.Format(c.processorShare * 1e9),
		})
		curve.Points = append(curve.Points, report.Point{X: float64(b.cfg.Nodes[i]), Y: c.bytes})
	}
	chart.Curves = []report.Curve{curve}
	return report.Section{
		Key: "server", Title: "What it costs the API server",
		Text: "Drivers, each a process with separate connections as on a separate node, have volumes of one ConfigMap, which is edited. " +
			"The figures are the API server's own metrics.",
		Tables: []report.Table{table}, Charts: []report.Chart{chart},
		Notes: []string{
			"The row of no nodes is the rest of the cluster: the controller manager watches all ConfigMaps.",
			"The requests are Events: each pod is notified of a change of its files. The driver sends ten at once for a volume, and then one a " +
				"minute, so that many edits have fewer requests each than few.",
			"The processor time is all that the API server does meanwhile, the edits themselves and whatever else goes on included.",
		},
	}
}
