// Package expect ends a test whose steps fail, as pkg/expect does, and waits for longer where processors are emulated.
//
// It does not know what is tested.
package expect

import (
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
