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
	"github.com/liveconfig-csi/liveconfig/test/bench/scale"
	"github.com/liveconfig-csi/liveconfig/test/bench/server"
	"github.com/liveconfig-csi/liveconfig/test/bench/sidecars"
	"github.com/liveconfig-csi/liveconfig/test/bench/site"
	"github.com/liveconfig-csi/liveconfig/test/bench/update"
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
		{name: "selection", measure: measureSelection},
		{name: "sidecars", measure: measureSidecars},
		{name: "kubelet", measure: measureKubelet, waits: true},
		{name: "publish", measure: measurePublish},
		{name: "memory", measure: measureMemory, waits: true},
		{name: "idle", measure: measureIdle},
		{name: "server", measure: measureServer},
		{name: "scale", measure: measureScale, waits: true},
		{name: "profile", measure: measureProfile},
	}
}

// of returns what a run takes, or a quick one.
func of[T any](o options, full, quick T) T {
	if o.quick {
		return quick
	}
	return full
}

func measureUpdate(ctx context.Context, s *site.Site, o options) (report.Section, []report.Target, error) {
	return update.Measure(ctx, update.Config{Site: s, FanOuts: o.volumes, Runs: of(o, 3, 1), Edits: of(o, 100, 6)})
}

func measureSeparate(ctx context.Context, s *site.Site, o options) (report.Section, []report.Target, error) {
	cfg := update.SeparateConfig{Site: s, Volumes: o.volumes[len(o.volumes)-1], Runs: of(o, 3, 1), Edits: of(o, 40, 5)}
	return update.MeasureSeparate(ctx, cfg)
}

func measureSelection(ctx context.Context, s *site.Site, o options) (report.Section, []report.Target, error) {
	return update.MeasureSelection(ctx, update.SelectionConfig{
		Site: s, Objects: 500, Runs: of(o, 3, 1), Edits: of(o, 60, 10), Burst: 200,
		Rest: of(o, 150*time.Second, 10*time.Second), // Go collects garbage at least every two minutes.
	})
}

func measureSidecars(ctx context.Context, s *site.Site, o options) (report.Section, []report.Target, error) {
	return sidecars.Measure(ctx, sidecars.Config{
		Site: s, Pods: of(o, 30, 5), Runs: of(o, 3, 1), Edits: of(o, 30, 8),
		Outage: of(o, 5*time.Minute, 20*time.Second), Rest: of(o, 30*time.Second, 2*time.Second),
	})
}

func measureKubelet(ctx context.Context, s *site.Site, o options) (report.Section, []report.Target, error) {
	return update.MeasureKubelet(ctx, update.KubeletConfig{
		Site: s, Turn: o.turns, Runs: of(o, 3, 1), Pods: of(o, 30, 6), Bumped: of(o, 20, 6), Spread: of(o, 75*time.Second, 10*time.Second),
	})
}

func measurePublish(ctx context.Context, s *site.Site, o options) (report.Section, []report.Target, error) {
	return publish.Measure(ctx, publish.Config{
		Site: s, Runs: of(o, 3, 1), Sequential: of(o, 300, 40), Batches: of(o, 12, 2), Pods: of(o, 20, 4),
		Volumes: of(o, []int{10, 110, 1000}, []int{10, 110}),
	})
}

func measureMemory(ctx context.Context, s *site.Site, o options) (report.Section, []report.Target, error) {
	return memory.Measure(ctx, memory.Config{
		Site: s, Turn: o.turns, Counts: of(o, []int{10, 110, 1000}, []int{10, 110, 400}), Runs: of(o, 3, 1), Unrelated: of(o, 2000, 300),
		Rest: of(o, 150*time.Second, 2*time.Second), // Go collects garbage at least every two minutes.
	})
}

func measureIdle(ctx context.Context, s *site.Site, o options) (report.Section, []report.Target, error) {
	cfg := idle.Config{Site: s, Volumes: o.volumes[len(o.volumes)-1], Runs: of(o, 3, 1), Quiet: of(o, 100*time.Second, 5*time.Second)}
	return idle.Measure(ctx, cfg)
}

func measureServer(ctx context.Context, s *site.Site, o options) (report.Section, []report.Target, error) {
	nodes := of(o, []int{0, 1, 2, 4, 8, 16}, []int{0, 1, 3})
	return server.Measure(ctx, server.Config{Site: s, Nodes: nodes, Volumes: 10, Edits: of(o, 50, 5)})
}

func measureProfile(ctx context.Context, s *site.Site, o options) (report.Section, []report.Target, error) {
	return profile.Measure(ctx, profile.Config{
		Site: s, Volumes: o.volumes[len(o.volumes)-1], Edits: of(o, 100, 10), Publishes: of(o, 2000, 50), Rounds: of(o, 10, 1),
	})
}

func measureScale(ctx context.Context, s *site.Site, o options) (section report.Section, targets []report.Target, err error) {
	cfg := scale.Config{
		Repo: o.repo, LogDir: filepath.Join(o.logs, "scale"), Say: s.Say, Own: 4, Children: 4,
		Nodes: of(o, []int{50, 100, 500}, []int{20, 50}), Edits: of(o, 40, 10), Restarts: of(o, 3, 1),
		Outage: of(o, 10*time.Second, 3*time.Second), Alone: o.turns.Do,
	}
	if o.quick {
		return scale.Measure(ctx, cfg)
	}
	cfg.Alone = func(ctx context.Context, work func(context.Context) error) error { return work(ctx) }
	err = o.turns.Do(ctx, func(ctx context.Context) error {
		section, targets, err = scale.Measure(ctx, cfg)
		return err
	})
	return section, targets, err
}
