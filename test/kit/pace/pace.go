// Package pace says how long tests wait for programs.
package pace

import (
	"os"
	"strconv"
	"time"
)

// Variable says how many times slower than processors this machine's are, because they are emulated.
const Variable = "LIVECONFIG_SLOWNESS"

// Within returns how long programs may take for what takes them less than a time on processors that are not emulated.
func Within(d time.Duration) time.Duration {
	if times, err := strconv.Atoi(os.Getenv(Variable)); err == nil {
		return time.Duration(times) * d
	}
	return d
}
