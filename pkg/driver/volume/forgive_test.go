package volume_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
)

// TestGuardSourcesThatAreNotRead: a publish plans its files each time that the API server has answered about a source. What that
// takes grows with the number of sources that are not read yet, and not with its square: there may be two thousand.
func TestGuardSourcesThatAreNotRead(t *testing.T) { // Not parallel: whatever else is allocated would be counted.
	bytes := map[int]uint64{}
	for _, count := range []int{200, 1200} {
		alone(t, func(n *node) {
			var list []string
			for i := range count {
				ref := api.Ref{Kind: api.ConfigMap, Namespace: "default", Name: fmt.Sprint("object-", i)}
				n.cluster.set(ref, ref.Name, "1")
				list = append(list, "{configMap: {name: "+ref.Name+"}}")
			}
			d, r := n.start(), n.request("config", sources(strings.Join(list, ", ")))
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			d.publish(r)
			runtime.ReadMemStats(&after)
			bytes[count] = after.TotalAlloc - before.TotalAlloc
		})
	}
	if bytes[1200] > 10*bytes[200] {
		t.Errorf("a publish of 200 and 1,200 sources allocates %d and %d bytes, want ten times as many at most", bytes[200], bytes[1200])
	}
}
