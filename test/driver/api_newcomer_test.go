package driver

import (
	"fmt"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
	"github.com/liveconfig-csi/liveconfig/test/kit/fixture"
	"github.com/liveconfig-csi/liveconfig/test/kit/network"
)

// TestANewcomerAmongAThousandObjects is fault 30: an API server takes 1.5 s for each answer, and all thousand watches of a
// node's pods have to be opened again. A new pod does not wait for them, and they do not take long either.
func TestANewcomerAmongAThousandObjects(t *testing.T) {
	t.Parallel()
	const (
		volumes, each = 4, 250
		latency       = 1500 * time.Millisecond
		served        = 10 * time.Second
	)
	b, front := behindFront(t, "--configmap-identity=pod", "--publish-timeout=1m")
	b.AllowFor("configmaps", "default", "get", "list", "watch")
	var creations errgroup.Group
	creations.SetLimit(32)
	names := make([]string, volumes*each)
	for n := range names {
		names[n] = fmt.Sprint("many-", n)
		creations.Go(func() error {
			return b.PutConfigMap(t.Context(), names[n], map[string]string{fmt.Sprint("k-", n): "one"})
		})
	}
	must(t, creations.Wait())
	for n := range volumes {
		b.Publish(b.Pod(fmt.Sprint("many-", n), map[string]string{"sources": sources(names[n*each : (n+1)*each])}))
	}
	watches := func(r network.Request) bool { return r.Verb == "watch" && r.Resource == "configmaps" }
	areOpen := func() error {
		if got := front.Watching(watches); got < len(names) {
			return fmt.Errorf("%d watches are open, want %d", got, len(names))
		}
		return nil
	}
	environment.Eventually(t, 2*healed, areOpen)

	set(b, "new", "one")
	pod := b.Pod("new", map[string]string{"configMap": "new"})
	asked := func() int { return len(front.Asked(watches)) }
	before := asked()
	front.Set(network.Fault{Delay: latency})
	front.EndWatches(watches)
	environment.Eventually(t, fixture.Soon, func() error { // The line is full by then.
		if got := asked() - before; got < 10 {
			return fmt.Errorf("%d watches are asked for again, want 10", got)
		}
		return nil
	})
	began := time.Now()
	b.Publish(pod)
	if took := time.Since(began); took > served {
		t.Errorf("a publish took %s among %d watches, of %s each; want at most %s", took, len(names), latency, served)
	}
	if err := areOpen(); err == nil {
		t.Error("all watches were open before, so that nothing was in the new pod's way")
	}
	b.WantFile(pod, "n", "one")
	environment.Eventually(t, 2*healed, areOpen)
	t.Logf("all watches are open again after %s", time.Since(began))
}
