package main

import (
	"context"
	"path/filepath"
	"time"

	"github.com/liveconfig-csi/liveconfig/test/bench/idle"
	"github.com/liveconfig-csi/liveconfig/test/bench/memory"
	"github.com/liveconfig-csi/liveconfig/test/bench/profile"
	"github.com/liveconfig-csi/liveconfig/test/bench/publish"
	"github.com/liveconfig-csi/liveconfig/test/bench/report"
	"github.com/liveconfig-csi/liveconfig/test/bench/server"
	"github.com/liveconfig-csi/liveconfig/test/bench/site"
	"github.com/liveconfig-csi/liveconfig/test/bench/update"
	"github.com/liveconfig-csi/liveconfig/test/scale"
)

// part is one of the questions that the benchmark asks.
type part struct {
	name    string
	measure func(ctx context.Context, s *site.Site, o options) (report.Section, []report.Target, error)
	// waits says that it has little to do for most of its time, takes its turn when it has, and goes on with its like.
	waits bool
}

// parts are in the order of the page.
func parts() []part {
	return []part{
		{name: "update", measure: measureUpdate},
		{name: "separate", measure: measureSeparate},
		{name: "kubelet", measure: measureKubelet, waits: true},
		{name: "publish", measure: measurePublish},
		{name: "memory", measure: measureMemory, waits: true},
		{name: "idle", measure: measureIdle},
		{name: "server", measure: measureServer},
		{name: "scale", measure: measureScale, waits: true},
		{name: "profile", measure: measureProfile},
	}
}

func measureUpdate(ctx context.Context, s *site.Site, o options) (report.Section, []report.Target, error) {
	cfg := update.Config{Site: s, FanOuts: o.volumes, Runs: 3, Edits: 100}
	if o.quick {
		cfg.Runs, cfg.Edits = 1, 6
	}
	return update.Measure(ctx, cfg)
}

func measureSeparate(ctx context.Context, s *site.Site, o options) (report.Section, []report.Target, error) {
	cfg := update.SeparateConfig{Site: s, Volumes: o.volumes[len(o.volumes)-1], Runs: 3, Edits: 40}
	if o.quick {
		cfg.Runs, cfg.Edits = 1, 5
	}
	return update.MeasureSeparate(ctx, cfg)
}

func measureKubelet(ctx context.Context, s *site.Site, o options) (report.Section, []report.Target, error) {
	cfg := update.KubeletConfig{Site: s, Turn: o.turns, Runs: 3, Pods: 30, Bumped: 20, Spread: 75 * time.Second}
	if o.quick {
		cfg.Runs, cfg.Pods, cfg.Bumped, cfg.Spread = 1, 6, 6, 10*time.Second
	}
	return update.MeasureKubelet(ctx, cfg)
}

func measurePublish(ctx context.Context, s *site.Site, o options) (report.Section, []report.Target, error) {
	cfg := publish.Config{Site: s, Runs: 3, Sequential: 300, Batches: 12, Pods: 20, Volumes: []int{10, 110, 1000}}
	if o.quick {
		cfg.Runs, cfg.Sequential, cfg.Batches, cfg.Pods, cfg.Volumes = 1, 40, 2, 4, []int{10, 110}
	}
	return publish.Measure(ctx, cfg)
}

func measureMemory(ctx context.Context, s *site.Site, o options) (report.Section, []report.Target, error) {
	// Go collects garbage at least every two minutes.
	cfg := memory.Config{
		Site: s, Turn: o.turns, Counts: []int{10, 110, 1000}, Runs: 3, Unrelated: 2000, Rest: 150 * time.Second,
	}
	if o.quick {
		cfg.Counts, cfg.Runs, cfg.Unrelated, cfg.Rest = []int{10, 110, 400}, 1, 300, 2*time.Second
	}
	return memory.Measure(ctx, cfg)
}

func measureIdle(ctx context.Context, s *site.Site, o options) (report.Section, []report.Target, error) {
	cfg := idle.Config{Site: s, Volumes: o.volumes[len(o.volumes)-1], Runs: 3, Quiet: 100 * time.Second}
	if o.quick {
		cfg.Runs, cfg.Quiet = 1, 5*time.Second
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

func measureProfile(ctx context.Context, s *site.Site, o options) (report.Section, []report.Target, error) {
	cfg := profile.Config{Site: s, Volumes: o.volumes[len(o.volumes)-1], Edits: 100, Publishes: 2000, Rounds: 10}
	if o.quick {
		cfg.Edits, cfg.Publishes, cfg.Rounds = 10, 50, 1
	}
	return profile.Measure(ctx, cfg)
}

func measureScale(ctx context.Context, s *site.Site, o options) (section report.Section, targets []report.Target, err error) {
	cfg := scale.Config{
		Repo: o.repo, LogDir: filepath.Join(o.logs, "scale"), Say: s.Say,
		Nodes: []int{50, 100, 500}, Own: 4, Children: 4, Edits: 40, Restarts: 3, Outage: 10 * time.Second,
		Alone: func(ctx context.Context, work func(context.Context) error) error { return work(ctx) },
	}
	if o.quick {
		cfg.Nodes, cfg.Edits, cfg.Restarts, cfg.Outage, cfg.Alone = []int{20, 50}, 10, 1, 3*time.Second, o.turns.Do
		return scale.Measure(ctx, cfg)
	}
	err = o.turns.Do(ctx, func(ctx context.Context) error {
		section, targets, err = scale.Measure(ctx, cfg)
		return err
	})
	return section, targets, err
}
