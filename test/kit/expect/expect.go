// Package expect ends a test whose steps fail, as pkg/expect does, and waits for longer where processors are emulated.
//
// It does not know what is tested.
package expect

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/expect"
	"github.com/liveconfig-csi/liveconfig/test/kit/pace"
)

// NoError ends the test at an error.
func NoError(t testing.TB, err error) {
	t.Helper()
	expect.NoError(t, err)
}

// Eventually calls check until it returns nil, and ends the test with its last error when that takes longer than within, which is
// longer where processors are emulated. It is for what the driver promises to do soon without an event when it is done.
func Eventually(t testing.TB, within time.Duration, check func() error) {
	t.Helper()
	expect.Eventually(t, pace.Within(within), check)
}

// Swift wants 95 of a hundred of what was timed to take so long at most. The rest may be times at which the whole machine stood
// still; what is held up by something takes longer more often.
func Swift(t testing.TB, what string, all []time.Duration, most time.Duration) {
	t.Helper()
	if len(all) == 0 {
		t.Errorf("there were no %s", what)
		return
	}
	p95 := Percentile(all, 95)
	t.Logf("%d %s: median %s, p95 %s, longest %s", len(all), what, Percentile(all, 50), p95, slices.Max(all))
	if p95 > most {
		t.Errorf("%s took %s at p95, want at most %s", what, p95, most)
	}
}

// Percentile is the smallest value that p percent of all do not exceed.
func Percentile(all []time.Duration, p float64) time.Duration {
	sorted := slices.Sorted(slices.Values(all))
	return sorted[max(int(math.Ceil(p/100*float64(len(sorted)))), 1)-1]
}
