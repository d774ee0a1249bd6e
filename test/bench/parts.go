package main

import (
	"context"
	"time"

	"github.com/liveconfig-csi/liveconfig/test/bench/idle"
	"github.com/liveconfig-csi/liveconfig/test/bench/memory"
	"github.com/liveconfig-csi/liveconfig/test/bench/publish"
	"github.com/liveconfig-csi/liveconfig/test/bench/report"
	"github.com/liveconfig-csi/liveconfig/test/bench/server"
	"github.com/liveconfig-csi/liveconfig/test/bench/site"
	"github.com/liveconfig-csi/liveconfig/test/bench/update"
)

// part is one of the questions that the benchmark asks.
type part struct {
	name    string
	measure func(ctx context.Context, s *site.Site, o options) (report.Section, []report.Target, error)
	// waits says that it has little to do for most of its time. A quick run goes on with the others meanwhile.
	waits bool
}

func parts() []part {
	return []part{
		{name: "kubelet", measure: measureKubelet, waits: true},
		{name: "update", measure: measureUpdate},
		{name: "publish", measure: measurePublish},
		{name: "idle", measure: measureIdle},
		{name: "memory", measure: measureMemory},
		{name: "server", measure: measureServer},
	}
}

func measureUpdate(ctx context.Context, s *site.Site, o options) (report.Section, []report.Target, error) {
	cfg := update.Config{Site: s, FanOuts: o.volumes, Runs: 3, Edits: 100}
	if o.quick {
		cfg.Runs, cfg.Edits = 1, 6
	}
	return update.Measure(ctx, cfg)
}

func measureKubelet(ctx context.Context, s *site.Site, o options) (report.Section, []report.Target, error) {
	cfg := update.KubeletConfig{Site: s, Runs: 3, Pods: 30, Bumped: 20, Spread: 75 * time.Second}
	if o.quick {
		cfg.Runs, cfg.Pods, cfg.Bumped, cfg.Spread = 1, 6, 6, 10*time.Second
	}
	return update.MeasureKubelet(ctx, cfg)
}

func measurePublish(ctx context.Context, s *site.Site, o options) (report.Section, []report.Target, error) {
	cfg := publish.Config{Site: s, Runs: 3, Sequential: 300, Batches: 12, Pods: 20}
	if o.quick {
		cfg.Runs, cfg.Sequential, cfg.Batches, cfg.Pods = 1, 40, 2, 4
	}
	return publish.Measure(ctx, cfg)
}

func measureMemory(ctx context.Context, s *site.Site, o options) (report.Section, []report.Target, error) {
	// Go collects garbage at least every two minutes.
	cfg := memory.Config{Site: s, Counts: []int{10, 110, 1000}, Unrelated: 2000, Rest: 150 * time.Second}
	if o.quick {
		cfg.Counts, cfg.Unrelated, cfg.Rest = []int{10, 110, 400}, 300, 2*time.Second
	}
	return memory.Measure(ctx, cfg)
}

func measureIdle(ctx context.Context, s *site.Site, o options) (report.Section, []report.Target, error) {
	cfg := idle.Config{Site: s, Volumes: o.volumes[len(o.volumes)-1], Quiet: 5 * time.Minute}
	if o.quick {
		cfg.Quiet = 5 * time.Second
	}
	return idle.Measure(ctx, cfg)
}

func measureServer(ctx context.Context, s *site.Site, o options) (report.Section, []report.Target, error) {
	cfg := server.Config{Site: s, Nodes: []int{0, 1, 2, 4, 8, 16}, Volumes: 10, Edits: 50}
	if o.quick {
		cfg.Nodes, cfg.Edits = []int{0, 1, 3}, 5
	}
	return server.Measure(ctx, cfg)
}
