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

// Swift wants half of what was timed to take no longer than median, and 95 of a hundred no longer than p95. The rest may be times
// at which the whole machine stood still: what is held up by something takes longer more often.
func Swift(t testing.TB, what string, all []time.Duration, median, p95 time.Duration) {
	t.Helper()
	if len(all) == 0 {
		t.Errorf("there were no %s", what)
		return
	}
	half, most := Percentile(all, 50), Percentile(all, 95)
	t.Logf("%d %s: median %s, p95 %s, longest %s", len(all), what, half, most, slices.Max(all))
	if half > median || most > p95 {
		t.Errorf("%s took %s, and %s at p95, want at most %s and %s", what, half, most, median, p95)
	}
}

// Percentile is the smallest value that p percent of all do not exceed.
func Percentile(all []time.Duration, p float64) time.Duration {
	sorted := slices.Sorted(slices.Values(all))
	return sorted[max(int(math.Ceil(p/100*float64(len(sorted)))), 1)-1]
}
