// Package expect ends a test whose steps fail, as pkg/expect does, and waits for longer where processors are emulated. It also
// judges how long many steps took.
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

// Swift fails the test, which goes on, if half of what was timed took longer than median, or more than five of a hundred longer
// than p95. Five may: a machine that stands still for a moment holds up a few, and a storm that starves others many.
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

// Percentile is the smallest value that p percent of all do not exceed. There must be one.
func Percentile(all []time.Duration, p float64) time.Duration {
	sorted := slices.Sorted(slices.Values(all))
	return sorted[max(int(math.Ceil(p/100*float64(len(sorted)))), 1)-1]
}
