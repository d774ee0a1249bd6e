// Package scale measures what many nodes cost the API server: simulated ones, of which each has the driver's source layer, or
// reflectors as the kubelet has, and separate connections. From that a model says what a large cluster would be.
//
// It does not know volumes.
package scale

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/liveconfig-csi/liveconfig/test/bench/report"
	"github.com/liveconfig-csi/liveconfig/test/bench/scale/fleet"
)

// Config says what to measure. All fields are required.
type Config struct {
	// Repo is the root of the checkout, with bin/ built; LogDir receives the logs of the cluster.
	Repo, LogDir string
	// Say is called with each step.
	Say func(format string, args ...any)
	// Alone has work done while nothing else is measured. Starts of the API server, which take most of the time, are not.
	Alone func(context.Context, func(context.Context) error) error
	// Nodes are the numbers of nodes, from the smallest on.
	Nodes []int
	// Own is how many objects each node watches besides the one that all have. Children is how many processes share the nodes.
	Own, Children int
	// Edits are made at each number of nodes, and the API server is killed Restarts times. It stays away for Outage and as long
	// as it takes to start.
	Edits, Restarts int
	Outage          time.Duration
}

// bench is one measurement.
type bench struct {
	cfg     Config
	ground  *ground
	binary  string // Of the children.
	version int

	empty  empty
	points []point
}

// empty is what a cluster without nodes does.
type empty struct {
	edits edits
	herd  herd
	// idle is its processor time each second, and event that of an Event.
	idle, told time.Duration
}

// point is what was found with nodes of one way.
type point struct {
	way   fleet.Way
	edits edits
	herds []herd
	// dialled is how many connections nodes made when they started, and started how many nodes these were.
	dialled, started int
}

// Measure returns what it has found.
func Measure(ctx context.Context, cfg Config) (_ report.Section, _ []report.Target, err error) {
	g, err := prepare(ctx, cfg.Repo, cfg.LogDir)
	if err != nil {
		return report.Section{}, nil, fmt.Errorf("prepare a cluster: %w", err)
	}
	defer func() { err = errors.Join(err, g.close()) }()
	b := &bench{cfg: cfg, ground: g, binary: filepath.Join(g.dir.Path(), "nodes")}
	if err := build(ctx, cfg.Repo, b.binary); err != nil {
		return report.Section{}, nil, err
	}
	if err := b.measureEmpty(ctx); err != nil {
		return report.Section{}, nil, fmt.Errorf("measure a cluster without nodes: %w", err)
	}
	for _, way := range []fleet.Way{fleet.Driver, fleet.Kubelet} {
		if err := b.measureWay(ctx, way); err != nil {
			return report.Section{}, nil, fmt.Errorf("measure nodes of %s: %w", way, err)
		}
	}
	return b.section(), b.targets(), nil
}

// restarts is how often the API server is killed: of nodes in the kubelet's way, which take minutes to come back, once and
// only when there are most.
func (b *bench) restarts(way fleet.Way, nodes int) int {
	switch {
	case way == fleet.Driver:
		return b.cfg.Restarts
	case nodes == b.cfg.Nodes[len(b.cfg.Nodes)-1]:
		return 1
	}
	return 0
}

// measureEmpty finds out what to take off from what is found with nodes.
func (b *bench) measureEmpty(ctx context.Context) (err error) {
	nobody := &children{}
	if b.empty.herd, err = b.measureHerd(ctx, nobody); err != nil {
		return err
	}
	if b.empty.edits, err = b.measureEditsAlone(ctx, nobody); err != nil {
		return err
	}
	if b.empty.told, err = b.measureEvents(ctx); err != nil {
		return err
	}
	before, err := b.ground.use()
	if err != nil {
		return err
	}
	if err := rest(ctx, quiet); err != nil {
		return err
	}
	after, err := b.ground.use()
	b.empty.idle = time.Duration(float64(after.since(before).sum()) / quiet.Seconds())
	return err
}

// measureWay has more and more nodes of one way.
func (b *bench) measureWay(ctx context.Context, way fleet.Way) (err error) {
	crew, err := startChildren(ctx, b.binary, b.cfg.Children, fleet.Config{
		Way: way, Kubeconfigs: b.ground.kubeconfigs(way), Namespace: namespace, Own: b.cfg.Own,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, crew.close()) }()
	for _, n := range b.cfg.Nodes {
		if err := b.ground.furnish(ctx, way, crew.next, n, b.cfg.Own); err != nil {
			return err
		}
		begin, before := time.Now(), crew.next
		seen, err := crew.grow(n, patience)
		if err != nil {
			return fmt.Errorf("start %d nodes: %w", n, err)
		}
		b.cfg.Say("%d nodes of %s watch after %s", n, way, time.Since(begin).Round(time.Millisecond))
		p := point{way: way, dialled: seen.Dialled, started: n - before}
		if p.edits, err = b.measureEditsAlone(ctx, crew); err != nil {
			return fmt.Errorf("edit what %d nodes watch: %w", n, err)
		}
		for range b.restarts(way, n) {
			h, err := b.measureHerd(ctx, crew)
			if err != nil {
				return fmt.Errorf("restart the API server of %d nodes: %w", n, err)
			}
			p.herds = append(p.herds, h)
		}
		b.points = append(b.points, p)
	}
	return nil
}
