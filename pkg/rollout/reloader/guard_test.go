package reloader_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/reloader"
)

// hostileWith has lists of a number of regular expressions that take long to be compiled.
func hostileWith(patterns int) reloader.Workload {
	text := strings.Repeat(`(?i)`+strings.Repeat(`\pL`, 40)+",", patterns)
	return reloader.Workload{Annotations: annotations{reloader.ReloadOf(api.ConfigMap): "app," + text, reloader.ReloadOf(api.Secret): "tls," + text}}
}

// TestGuardNamed: a cache reads names for each workload of the cluster, one after the other, so that it must not compile anything
// that users write. One expression of these takes thousands of allocations.
//
//nolint:paralleltest // It counts allocations.
func TestGuardNamed(t *testing.T) {
	for patterns, most := range map[int]float64{0: 100, 32: 1500, 250: 11000} {
		w := hostileWith(patterns)
		if got := testing.AllocsPerRun(10, func() { w.Named() }); got > most {
			t.Errorf("Named allocates %.0f times beside %d regular expressions, want at most %.0f", got, patterns, most)
		}
	}
}

// TestGuardCost: what a workload can make a worker do at once is limited. The cost is in bytes of attributes, of which the
// controller reads 512 KiB at most before a namespace has to wait.
func TestGuardCost(t *testing.T) {
	t.Parallel()
	const most = 512 << 10
	all := []string{`a`, strings.Repeat(`a*`, 64), strings.Repeat(`a*`, 126), `(?i)` + strings.Repeat(`\pL`, 80)}
	for _, pattern := range all {
		for _, patterns := range []int{1, 16, 17, 32, 33, 256} {
			for _, names := range []int{1, 66, 67, 1000} {
				w := reloader.Workload{Annotations: annotations{}}
				for _, kind := range []api.Kind{api.ConfigMap, api.Secret} {
					w.Annotations[reloader.ReloadOf(kind)] = strings.Repeat(pattern+"|,", patterns)
					for i := range names {
						w.Used = append(w.Used, api.Ref{Kind: kind, Name: fmt.Sprintf("%0245d", i)})
					}
				}
				count, size := 0, 0
				for _, list := range w.Patterns() {
					count, size = count+len(list), size+len(strings.Join(list, ""))
				}
				if cost := w.Cost(); count > 64 || size > 8<<10 || cost > most || (cost == 0) != (count == 0) {
					t.Errorf("%d expressions of %d bytes and %d names: %d are compiled, of %d bytes, which costs %d; want at most 64, %d and %d",
						patterns, len(pattern), names, count, size, cost, 8<<10, most)
				}
			}
		}
	}
}
