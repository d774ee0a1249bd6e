// Package expect ends a test whose steps fail: at an error, or when something is not so in time.
//
// It does not know what is tested.
package expect

import (
	"testing"
	"time"
)

// The pauses between two looks of [Eventually] grow from the first to the last one: what happens
// soon is seen soon, and a server that is slow is not asked all the time.
const (
	firstPause = 2 * time.Millisecond
	lastPause  = 50 * time.Millisecond
)

// NoError ends the test at an error.
func NoError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Eventually calls check until it returns nil, and ends the test with its last error when that
// takes longer than within. It is for what is promised to come soon without an event when it is
// done.
func Eventually(t testing.TB, within time.Duration, check func() error) {
	t.Helper()
	deadline := time.Now().Add(within)
	for pause := firstPause; ; pause = min(pause*3/2, lastPause) {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("after %s: %v", within, err)
		}
		time.Sleep(pause) //nolint:forbidigo // What is waited for has no event.
	}
}
