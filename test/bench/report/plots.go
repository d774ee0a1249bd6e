package report

import (
	"math"
	"strconv"
)

// cdfSteps is how many points a distribution is drawn with at most: more would not show.
const cdfSteps = 400

// plot draws the distributions of the series: how many percent of the samples are at most so large.
func (g Group) plot() []byte {
	x := axis{low: math.Inf(1), high: math.Inf(-1), isLog: true}
	unit := Nanoseconds
	for _, s := range g.Series {
		if all := s.All(); len(all) > 0 {
			x.low = min(x.low, float64(max(all[0], 1)))
			x.high = max(x.high, float64(all[len(all)-1]))
			unit = s.Unit
		}
	}
	if math.IsInf(x.low, 1) {
		x.low, x.high = 1, 10
	}
	x.low = math.Pow(10, math.Floor(math.Log10(x.low)))
	x.high = max(math.Pow(10, math.Ceil(math.Log10(x.high))), x.low*10)
	p := newPlot(g.Title, x, axis{low: 0, high: 100})
	p.grid("at most", "percent of samples", unit.Format, digits)
	for _, s := range g.Series {
		if all := s.All(); len(all) > 0 {
			p.curve(s.Name, distribution(all))
		}
	}
	return p.svg()
}

// distribution returns the steps of sorted samples.
func distribution(sorted []int64) []Point {
	n := len(sorted)
	points := []Point{{X: float64(sorted[0]), Y: 0}}
	stride := max(1, n/cdfSteps)
	for i := 0; i < n; i += stride {
		points = append(points, Point{X: float64(sorted[i]), Y: 100 * float64(i+1) / float64(n)})
	}
	return append(points, Point{X: float64(sorted[n-1]), Y: 100})
}

// plot draws the curves from zero on, so that what is linear looks it.
func (c Chart) plot() []byte {
	var x, y axis
	for _, curve := range c.Curves {
		for _, pt := range curve.Points {
			x.high, y.high = max(x.high, pt.X), max(y.high, pt.Y)
		}
	}
	x.high, y.high = max(x.high, 1), max(y.high, 1)*1.05
	p := newPlot(c.Title, x, y)
	number := func(v float64) string { return strconv.FormatFloat(v, 'g', 6, 64) }
	p.grid(c.X, c.Y, number, number)
	for _, curve := range c.Curves {
		p.curve(curve.Name, curve.Points)
	}
	return p.svg()
}
