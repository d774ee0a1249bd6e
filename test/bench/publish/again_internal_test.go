package publish

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// found is a measurement where a call takes so many nanoseconds of processor time, and twice as many in one run.
func found(call func(volumes float64) float64) *again {
	a := &again{volumes: []int{10, 110, 1000}}
	for _, n := range a.volumes {
		cost := call(float64(n))
		a.cells = append(a.cells, onceAll{latency: [][]int64{{1}, {2}, {3}}, processor: []float64{cost, 2 * cost, cost}})
	}
	return a
}

func TestAgain(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		call    func(volumes float64) float64
		want    float64 // The exponent.
		reached bool
	}{
		"a call costs the same with many volumes": {func(float64) float64 { return 2e5 }, 1, true},
		"a call looks at all volumes":             {func(n float64) float64 { return 1e3 * n }, 2, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			target := found(tt.call).target()
			if math.Abs(target.Value-tt.want) > 1e-9 || target.Reached() != tt.reached {
				t.Errorf("target = %+v, reached %t; want %v, reached %t", target, target.Reached(), tt.want, tt.reached)
			}
		})
	}
}

func TestAgainTable(t *testing.T) {
	t.Parallel()
	want := [][]string{{"10", "200 µs", "2 ms"}, {"110", "200 µs", "22 ms"}, {"1000", "200 µs", "200 ms"}}
	if diff := cmp.Diff(want, found(func(float64) float64 { return 2e5 }).table().Rows); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
}
