package report_test

import (
	"math"
	"testing"

	"github.com/liveconfig-csi/liveconfig/test/bench/report"
)

func TestPercentile(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		runs [][]int64
		p    float64
		want int64
	}{
		"no samples":                {p: 50, want: 0},
		"the only one":              {runs: [][]int64{{7}}, p: 50, want: 7},
		"the lower of two":          {runs: [][]int64{{9, 7}}, p: 50, want: 7},
		"the greatest":              {runs: [][]int64{{1, 9, 7}}, p: 100, want: 9},
		"nearly all are not enough": {runs: [][]int64{{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}}, p: 99, want: 10},
		"nine of ten are enough":    {runs: [][]int64{{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}}, p: 90, want: 9},
		"runs are taken together":   {runs: [][]int64{{5, 1}, {3}}, p: 50, want: 3},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := report.Latencies("key", "name", tt.runs).Percentile(tt.p); got != tt.want {
				t.Errorf("Percentile(%v) of %v = %d, want %d", tt.p, tt.runs, got, tt.want)
			}
		})
	}
}

func TestTypical(t *testing.T) {
	t.Parallel()
	if got, want := report.Latencies("key", "name", [][]int64{{9000, 1000}, {2000}}).Typical(), "2 µs"; got != want {
		t.Errorf("typical = %q, want %q", got, want)
	}
}

func TestRatio(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		runs, other [][]int64
		p, want     float64
	}{
		"one run":                             {runs: [][]int64{{6, 2, 4}}, other: [][]int64{{2, 2, 2}}, p: 50, want: 2},
		"of the percentile that is asked for": {runs: [][]int64{{6, 2, 4}}, other: [][]int64{{2, 2, 2}}, p: 99, want: 3},
		"each run by itself, and the one in the middle":  {runs: [][]int64{{10}, {30}, {8}}, other: [][]int64{{5}, {10}, {8}}, p: 50, want: 2},
		"a slow run of both weighs no more than another": {runs: [][]int64{{2}, {2000}, {2}}, other: [][]int64{{1}, {1000}, {1}}, p: 50, want: 2},
		"the mean of two":                    {runs: [][]int64{{1}, {3}}, other: [][]int64{{1}, {1}}, p: 50, want: 2},
		"a run that the other does not have": {runs: [][]int64{{1}, {3}}, other: [][]int64{{1}}, p: 50, want: math.NaN()},
		"a run without samples":              {runs: [][]int64{{}}, other: [][]int64{{1}}, p: 50, want: math.NaN()},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := report.Series{Runs: tt.runs}.Ratio(report.Series{Runs: tt.other}, tt.p)
			if got != tt.want && !(math.IsNaN(got) && math.IsNaN(tt.want)) {
				t.Errorf("ratio of %v to %v at %v = %v, want %v", tt.runs, tt.other, tt.p, got, tt.want)
			}
		})
	}
}

func TestFormat(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		unit  report.Unit
		value float64
		want  string
	}{
		"nanoseconds":         {report.Nanoseconds, 999, "999 ns"},
		"microseconds":        {report.Nanoseconds, 47_120, "47.1 µs"},
		"milliseconds":        {report.Nanoseconds, 3_456_000, "3.46 ms"},
		"seconds":             {report.Nanoseconds, 41_300_000_000, "41.3 s"},
		"no larger unit":      {report.Nanoseconds, 4_130_000_000_000, "4130 s"},
		"bytes":               {report.Bytes, 1023, "1023 B"},
		"mebibytes":           {report.Bytes, 16 << 20, "16 MiB"},
		"a number":            {report.Count, 110, "110"},
		"a number by decimal": {report.Count, 0.125, "0.12"},
		"less than nothing":   {report.Count, -0.25, "-0.25"},
		"hardly less":         {report.Count, -0.001, "0.00"},
		"nothing":             {report.Count, math.NaN(), "–"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := tt.unit.Format(tt.value); got != tt.want {
				t.Errorf("Format(%v) = %q, want %q", tt.value, got, tt.want)
			}
		})
	}
}
