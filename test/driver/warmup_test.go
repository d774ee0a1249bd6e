package driver

import (
	"net/http"
	"testing"
	"time"

	"github.com/liveconfig-csi/liveconfig/test/kit/expect"
	"github.com/liveconfig-csi/liveconfig/test/kit/network"
)

// TestStartWhileCachesWarmUp is fault 24 at the start: since Kubernetes 1.31, an API server whose watch caches are not ready
// answers 429 to lists and watches, with the time after which to come again. A driver that starts meanwhile leaves the files
// of pods as they are, refuses new volumes in time, asks no more often than the server asked, and then has everything.
func TestStartWhileCachesWarmUp(t *testing.T) {
	t.Parallel()
	b, front := behindFront(t, "--publish-timeout="+patience.String())
	pod := publish(b, "app", "one")
	warming := func(r network.Request) bool { return aboutMap(b, "app")(r) || aboutMap(b, "young")(r) }
	front.Set(network.Fault{Status: http.StatusTooManyRequests, RetryAfter: 2 * time.Second, Of: warming})
	b.Kill()
	b.Start()
	before, began := len(front.Asked(warming)), time.Now()
	set(b, "app", "two")
	set(b, "young", "one")
	young := b.Pod("young", map[string]string{"configMap": "young"})
	wantUnavailable(b, young)
	wantStays(b, pod, 5*time.Second)
	asked := len(front.Asked(warming)) - before
	if most := 2 * (3 + 2*int(time.Since(began)/(2*time.Second))); asked == 0 || asked > most {
		t.Errorf("%d requests in %s, want some and at most %d", asked, time.Since(began), most)
	}
	front.Set()
	expect.Eventually(t, healed, func() error { return b.Holds(pod, "n", "two") })
	b.Publish(young)
	b.WantFile(young, "n", "one")
}
