package rollout

import (
	"fmt"
	"testing"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/rollout/workload"
)

// TestAccessIsAskedForSeldom: a few workloads are tried again every three seconds, and however many wait, there are about ten
// tries a second.
func TestAccessIsAskedForSeldom(t *testing.T) {
	t.Parallel()
	a := newAccessWaits()
	ref := func(i int) workload.Ref {
		return workload.Ref{Kind: workload.Deployment, Namespace: "shop", Name: fmt.Sprint(i)}
	}
	for count, want := range map[int]time.Duration{1: 3 * time.Second, 30: 3 * time.Second, 200: 20 * time.Second, 5000: time.Minute} {
		for i := range count {
			a.add(ref(i))
		}
		if got := a.add(ref(0)); got != want {
			t.Errorf("with %d waiting the next try is after %s, want %s", count, got, want)
		}
		for i := range count {
			a.forget(ref(i))
		}
	}
}
