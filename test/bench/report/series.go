package report

import (
	"math"
	"slices"
)

// Unit is what samples are counted in.
type Unit string

// The units.
const (
	Nanoseconds Unit = "ns"
	Bytes       Unit = "B"
	Count       Unit = "1"
)

// Series is what was measured of one thing, over and over, in one or more runs.
type Series struct {
	Key  string `json:"key"`
	Name string `json:"name"`
	Unit Unit   `json:"unit"`
	// Runs are the samples of each run, in the order in which they were taken.
	Runs [][]int64 `json:"-"`
}

// Latencies is a series of durations, by run.
func Latencies(key, name string, runs [][]int64) Series {
	return Series{Key: key, Name: name, Unit: Nanoseconds, Runs: runs}
}

// Typical is the median of all runs' samples, as people read it.
func (s Series) Typical() string { return s.Unit.Format(float64(s.Percentile(50))) }

// All returns the samples of all runs, sorted.
func (s Series) All() []int64 { return slices.Sorted(slices.Values(slices.Concat(s.Runs...))) }

// Percentile returns the smallest sample of all runs that p percent of them do not exceed, and zero if there is none.
func (s Series) Percentile(p float64) int64 { return percentile(s.All(), p) }

func percentile(sorted []int64, p float64) int64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[max(int(math.Ceil(p/100*float64(len(sorted)))), 1)-1]
}

// Ratio returns how many times the other's percentile this one's is: the median of what the runs say, each by itself, since
// a machine may be slower in one run than in another. It is NaN where a run of either has no samples.
func (s Series) Ratio(other Series, p float64) float64 {
	runs := max(len(s.Runs), len(other.Runs))
	ratios := make([]float64, 0, runs)
	for i := range runs {
		if i >= len(s.Runs) || i >= len(other.Runs) || len(s.Runs[i]) == 0 || len(other.Runs[i]) == 0 {
			return math.NaN()
		}
		ratios = append(ratios, float64(ofRun(s.Runs[i], p))/float64(ofRun(other.Runs[i], p)))
	}
	return Median(ratios)
}

func ofRun(run []int64, p float64) int64 { return percentile(slices.Sorted(slices.Values(run)), p) }

// Median returns the value in the middle, the mean of two if there are two, and NaN if there is none.
func Median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	if n == 0 {
		return math.NaN()
	}
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}
