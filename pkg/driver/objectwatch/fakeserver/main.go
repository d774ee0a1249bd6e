package fakeserver

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

// Main runs the tests of a package in the made-up time of synctest bubbles, and returns the code to
// exit with. Goroutines that are left are a failure.
func Main(m *testing.M) int {
	// The last of the library's error handlers sleeps until a millisecond after the error before.
	// In a bubble, which starts in 2000, it would sleep for decades.
	utilruntime.ErrorHandlers = utilruntime.ErrorHandlers[:1]
	code := m.Run()
	if err := goleak.Find(); code == 0 && err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}
