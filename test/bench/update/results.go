package update

import (
	"fmt"
	"slices"

	"github.com/liveconfig-csi/liveconfig/test/bench/report"
)

// results returns what was found, cell by cell.
func (f *fans) results() ([]report.Group, []report.Target) {
	var groups []report.Group
	var targets []report.Target
	for _, c := range f.cells {
		groups = append(groups, c.groups()...)
		targets = append(targets, c.targets()...)
	}
	return groups, append(targets, f.growth()...)
}

// costs are how far the last volume is behind the floor, by the number of volumes.
func (f *fans) costs(p payload) []report.Point {
	var points []report.Point
	for _, c := range f.cells {
		if c.payload == p {
			points = append(points, report.Point{X: float64(c.fanOut), Y: float64(c.series("", "", c.beyond).Percentile(50))})
		}
	}
	return points
}

// charts show how the cost grows, by size.
func (f *fans) charts() []report.Chart {
	var charts []report.Chart
	for _, p := range payloads() {
		chart := report.Chart{
			Key: fmt.Sprintf("growth-%d-bytes", p.size), Title: "The last volume behind the bare watch, p50, ConfigMap of " + p.name,
			X: "volumes of one object", Y: "milliseconds",
		}
		curve := report.Curve{Name: p.name}
		for _, pt := range f.costs(p) {
			curve.Points = append(curve.Points, report.Point{X: pt.X, Y: pt.Y / 1e6})
		}
		chart.Curves = []report.Curve{curve}
		charts = append(charts, chart)
	}
	return charts
}

// growth returns how the cost is to grow.
func (f *fans) growth() []report.Target {
	if len(f.cfg.FanOuts) < 2 {
		return nil
	}
	var targets []report.Target
	for _, p := range payloads() {
		what := fmt.Sprintf("growth: last volume behind the bare watch, %s, by the number of volumes", p.name)
		targets = append(targets, report.NoGrowth(fmt.Sprintf("growth-update-%d", p.size), what, f.costs(p)))
	}
	return targets
}

func (c *cell) groups() []report.Group {
	title := fmt.Sprintf("One ConfigMap of %s in %d volumes", c.payload.name, c.fanOut)
	if c.fanOut == 1 {
		title = fmt.Sprintf("One ConfigMap of %s in one volume", c.payload.name)
	}
	group := report.Group{
		Key: fmt.Sprintf("%d-volumes-%d-bytes", c.fanOut, c.payload.size), Title: title, Floor: "floor",
		Series: []report.Series{
			c.series("floor", "bare watch (floor)", c.direct).Series,
			c.series("floor-by-link", "bare watch, by the pods' way", c.byLink).Series,
			c.series("answer", "the API server's answer", c.answer).Series,
			c.series("first", "liveconfig, first volume", c.first).Series,
			c.series("every", "liveconfig, every volume", c.every).Series,
			c.series("last", "liveconfig, last volume", c.last).Series,
		},
	}
	if c.fanOut == 1 { // All are the same.
		group.Series = slices.Delete(group.Series, 4, 6)
		group.Series[3].Key, group.Series[3].Name = "every", "liveconfig"
	}
	if len(c.told) > 0 {
		group.Series = append(group.Series, c.series("told", "liveconfig, last volume, edits that pods are notified of", c.told).Series)
	}
	return []report.Group{group, {
		Title: title + ", from elsewhere",
		Series: []report.Series{
			c.series("after-answer", "liveconfig, from the API server's answer", c.after).Series,
			c.series("behind-floor", "liveconfig, behind the bare watch", c.behind).Series,
		},
	}}
}

// targets returns what was to be reached in this cell.
func (c *cell) targets() []report.Target {
	floor, last := c.series("", "", c.direct), c.series("", "", c.last)
	if c.fanOut == 110 && c.payload == payloads()[2] {
		return []report.Target{
			{
				Key: "update-110-large", What: "update, fan-out 110, 1 MiB: last volume to bare watch, p50",
				Value: last.Ratio(floor.Series, 50), Bound: 1.3,
			},
			{
				Key: "files-110", What: "memory of the files of 110 equal volumes of 1 MiB",
				Value: float64(c.filesBytes) / (1 << 20), Bound: 2, Unit: "MiB",
			},
		}
	}
	if c.payload != payloads()[0] {
		return nil
	}
	switch c.fanOut {
	case 1:
		return []report.Target{
			{
				Key: "update-1-p50", What: "update, fan-out 1, 1 KiB: liveconfig to bare watch, p50",
				Value: last.Ratio(floor.Series, 50), Bound: 1.1,
			},
			{
				Key: "update-1-p99", What: "update, fan-out 1, 1 KiB: liveconfig to bare watch, p99",
				Value: last.Ratio(floor.Series, 99), Bound: 2,
			},
		}
	case 110:
		return []report.Target{
			{
				Key: "update-110-p50", What: "update, fan-out 110, 1 KiB: last volume to bare watch, p50",
				Value: last.Ratio(floor.Series, 50), Bound: 1.3,
			},
		}
	}
	return nil
}
