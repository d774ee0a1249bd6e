// Package shared has the tests of one binary share what takes long to start: it is started for the first test that asks, and
// stopped after the last one.
//
// It does not know what is shared.
package shared

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
)

// One is what tests share. Its zero value has not been started. It is a variable of a package, because the one thing that all
// tests of a binary have in common is the binary.
type One[T any] struct {
	mu        sync.Mutex // Guards the fields below; held while it starts, so that parallel tests start one.
	hasMain   bool       // Main is going to stop what Get starts.
	isStarted bool
	value     T
	err       error
}

// Main runs the tests of a binary, stops what they have started, and returns the exit status. The status of the tests is given
// to stop.
func (o *One[T]) Main(m interface{ Run() int }, stop func(value T, status int) error) int {
	o.mu.Lock()
	o.hasMain = true
	o.mu.Unlock()
	status := m.Run()
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.isStarted {
		return status
	}
	if err := stop(o.value, status); err != nil {
		fmt.Fprintf(os.Stderr, "stop the %T that tests share: %v\n", o.value, err)
		return max(status, 1)
	}
	return status
}

// Get returns what is shared, and starts it for the first test. It outlives that test, and so does the context.
func (o *One[T]) Get(t testing.TB, start func(context.Context) (T, error)) T {
	t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.hasMain {
		t.Fatalf("nobody would stop the %T that tests share: call ForMain in TestMain", o.value)
	}
	if !o.isStarted && o.err == nil {
		o.value, o.err = start(context.WithoutCancel(t.Context()))
		o.isStarted = o.err == nil
	}
	if o.err != nil {
		t.Fatal(o.err)
	}
	return o.value
}
