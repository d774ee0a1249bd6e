// Package pace has the timeouts of tests for emulated processors.
package pace

import (
	"os"
	"strconv"
	"time"
)

// Variable is the environment variable with the factor by which emulated processors are slower. Without it the factor is 1.
const Variable = "LIVECONFIG_SLOWNESS"

// Within returns a timeout for emulated processors: a timeout for real ones, times [Variable].
func Within(d time.Duration) time.Duration {
	if times, err := strconv.Atoi(os.Getenv(Variable)); err == nil {
		return time.Duration(times) * d
	}
	return d
}
