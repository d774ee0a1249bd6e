package report_test

import (
	"math"
	"testing"

	"github.com/liveconfig-csi/liveconfig/test/bench/report"
)

// points are a function of the numbers.
func points(f func(x float64) float64, numbers ...float64) []report.Point {
	all := make([]report.Point, 0, len(numbers))
	for _, x := range numbers {
		all = append(all, report.Point{X: x, Y: f(x)})
	}
	return all
}

func TestExponent(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		points []report.Point
		want   float64
	}{
		"linear":                     {points(func(x float64) float64 { return 3 * x }, 1, 10, 110), 1},
		"quadratic":                  {points(func(x float64) float64 { return 3 * x * x }, 1, 10, 110), 2},
		"constant":                   {points(func(float64) float64 { return 3 }, 1, 10, 110), 0},
		"falling is not growing":     {points(func(x float64) float64 { return 3 / x }, 1, 10, 110), 0},
		"where it grows most":        {[]report.Point{{X: 1, Y: 1}, {X: 10, Y: 10}, {X: 100, Y: 1000}, {X: 1000, Y: 1000}}, 2},
		"a constant part hides some": {[]report.Point{{X: 1, Y: 10}, {X: 10, Y: 100}, {X: 100, Y: 100}}, 1},
		"no cost is not a point":     {[]report.Point{{X: 1, Y: -1}, {X: 10, Y: 10}, {X: 20, Y: 0}, {X: 100, Y: 100}}, 1},
		"one that has a cost":        {[]report.Point{{X: 10, Y: 10}, {X: 20, Y: -1}}, 0},
		"one point":                  {[]report.Point{{X: 10, Y: 10}}, math.NaN()},
		"none":                       {nil, math.NaN()},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := report.Exponent(tt.points)
			if math.Abs(got-tt.want) > 1e-9 || math.IsNaN(got) != math.IsNaN(tt.want) {
				t.Errorf("Exponent(%v) = %v, want %v", tt.points, got, tt.want)
			}
		})
	}
}

func TestGrowth(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		cost func(n float64) float64
		want bool
	}{
		"linear, and what it varies by":     {func(n float64) float64 { return n + 0.05*n*math.Sin(n) }, true},
		"linear, with a part that is fixed": {func(n float64) float64 { return 5 + n }, true},
		"each volume looks at all others":   {func(n float64) float64 { return n + n*n/20 }, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			target := report.Growth("key", "what", points(tt.cost, 1, 10, 110))
			if got := target.Reached(); got != tt.want {
				t.Errorf("an exponent of %v is reached: %t, want %t", target.Value, got, tt.want)
			}
		})
	}
}
