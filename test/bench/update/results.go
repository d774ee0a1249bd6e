package update

import (
	"fmt"

	"github.com/liveconfig-csi/liveconfig/test/bench/report"
)

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
			points = append(points, report.Point{X: float64(c.fanOut), Y: float64(c.series("beyond", "").Percentile(50))})
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
	shown := fromSent()
	if c.fanOut == 1 { // All are the same.
		title = fmt.Sprintf("One ConfigMap of %s in one volume", c.payload.name)
		shown = append(shown[:3], row{key: "every", name: "liveconfig"})
	}
	if len(c.samples["told"]) > 0 {
		shown = append(shown, row{key: "told", name: "liveconfig, last volume, edits that pods are notified of"})
	}
	return []report.Group{
		{
			Key: fmt.Sprintf("%d-volumes-%d-bytes", c.fanOut, c.payload.size), Title: title, Floor: "floor",
			Series: c.all(shown),
		},
		{Title: title + ", from elsewhere", Series: c.all(fromElsewhere()[:2])},
	}
}

func (c *cell) all(rows []row) []report.Series {
	all := make([]report.Series, 0, len(rows))
	for _, r := range rows {
		all = append(all, c.series(r.key, r.name))
	}
	return all
}

func (c *cell) targets() []report.Target {
	toFloor := func(key, what string, percent, bound float64) report.Target {
		value := c.series("last", "").Ratio(c.series("floor", ""), percent)
		return report.Target{Key: key, What: what, Value: value, Bound: bound}
	}
	small, large := c.payload == payloads()[0], c.payload == payloads()[2]
	switch {
	case c.fanOut == 1 && small:
		return []report.Target{
			toFloor("update-1-p50", "update, fan-out 1, 1 KiB: liveconfig to bare watch, p50", 50, 1.1),
			toFloor("update-1-p99", "update, fan-out 1, 1 KiB: liveconfig to bare watch, p99", 99, 2),
		}
	case c.fanOut == 110 && small:
		return []report.Target{toFloor("update-110-p50", "update, fan-out 110, 1 KiB: last volume to bare watch, p50", 50, 1.3)}
	case c.fanOut == 110 && large:
		return []report.Target{
			toFloor("update-110-large", "update, fan-out 110, 1 MiB: last volume to bare watch, p50", 50, 1.3),
			{
				Key: "files-110", What: "memory of the files of 110 equal volumes of 1 MiB",
				Value: float64(c.filesBytes) / (1 << 20), Bound: 2, Unit: "MiB",
			},
		}
	}
	return nil
}
