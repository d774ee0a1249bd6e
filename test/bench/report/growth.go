package report

import "math"

// Exponent reports how a cost grows with a number: as its power with this exponent, where it grows most. 1 is linear, and less is
// better. The points are from the smallest number on. Those without a cost tell nothing, and where no two are left nothing
// grows. It is NaN if there are not two to begin with.
//
// A constant part of the cost hides growth, so costs should be without it.
func Exponent(points []Point) float64 {
	if len(points) < 2 {
		return math.NaN()
	}
	steepest := 0.0
	var before *Point
	for i := range points {
		p := &points[i]
		if p.X <= 0 || p.Y <= 0 {
			continue
		}
		if before != nil {
			steepest = max(steepest, math.Log(p.Y/before.Y)/math.Log(p.X/before.X))
		}
		before = p
	}
	return steepest
}

// Growth is the target for what is to grow linearly at worst. It gives way for a tenth of the exponent, by which measurements
// vary.
func Growth(key, what string, points []Point) Target {
	return Target{Key: key, What: what, Value: Exponent(points), Bound: 1.1, Unit: "as exponent"}
}

// NoGrowth is [Growth] for what is not to grow.
func NoGrowth(key, what string, points []Point) Target {
	t := Growth(key, what, points)
	t.Bound = 0.1
	return t
}
