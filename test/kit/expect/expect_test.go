package expect_test

import (
	"slices"
	"testing"
	"time"

	"github.com/liveconfig-csi/liveconfig/test/kit/expect"
)

// failed is a test that records whether it has failed.
type failed struct {
	testing.TB

	has bool
}

func (*failed) Helper()                 {}
func (*failed) Logf(string, ...any)     {}
func (f *failed) Errorf(string, ...any) { f.has = true }

func TestSwift(t *testing.T) {
	t.Parallel()
	const fast, slow = time.Millisecond, time.Minute
	times := func(fasts, slows int) []time.Duration {
		return append(slices.Repeat([]time.Duration{fast}, fasts), slices.Repeat([]time.Duration{slow}, slows)...)
	}
	tests := map[string]struct {
		all       []time.Duration
		p95       time.Duration
		wantFails bool
	}{
		"all are fast":      {all: times(100, 0), p95: fast},
		"five of a hundred": {all: times(95, 5), p95: fast},
		"six of a hundred":  {all: times(94, 6), p95: fast, wantFails: true},
		"half of them":      {all: times(50, 50), p95: slow},
		"more than half":    {all: times(49, 51), p95: slow, wantFails: true},
		"nothing was timed": {p95: slow, wantFails: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var f failed
			if expect.Swift(&f, "steps", tt.all, fast, tt.p95); f.has != tt.wantFails {
				t.Errorf("the test fails: %t, want %t", f.has, tt.wantFails)
			}
		})
	}
}

func TestPercentile(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		all  []time.Duration
		p    float64
		want time.Duration
	}{
		"the only one":              {all: []time.Duration{7}, p: 50, want: 7},
		"the lower of two":          {all: []time.Duration{9, 7}, p: 50, want: 7},
		"the greatest":              {all: []time.Duration{1, 9, 7}, p: 100, want: 9},
		"nearly all are not enough": {all: []time.Duration{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, p: 99, want: 10},
		"nine of ten are enough":    {all: []time.Duration{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, p: 90, want: 9},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := expect.Percentile(tt.all, tt.p); got != tt.want {
				t.Errorf("Percentile(%v, %v) = %d, want %d", tt.all, tt.p, got, tt.want)
			}
		})
	}
}
