package driver

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"

	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
	"github.com/liveconfig-csi/liveconfig/test/kit/fixture"
	"github.com/liveconfig-csi/liveconfig/test/kit/network"
)

// TestManyWatchesComeBackOneByOne is faults 24 and 30: more objects are watched than one connection carries streams, the
// API server is away for a while, and everything is read again. Neither during the outage nor at its end do all ask at
// once, and afterwards all is quiet.
func TestManyWatchesComeBackOneByOne(t *testing.T) {
	t.Parallel()
	const (
		many   = 260 // An HTTP/2 server of Go's takes 250 streams on a connection.
		outage = 5 * time.Second
	)
	b, front := behindFront(t, "--publish-timeout=1m")
	names := make([]string, many)
	put := func(value string) {
		var group errgroup.Group
		group.SetLimit(8)
		for n := range many {
			names[n] = fmt.Sprint("many-", n)
			group.Go(func() error {
				return b.PutConfigMap(t.Context(), names[n], map[string]string{fmt.Sprint("k-", n): value})
			})
		}
		must(t, group.Wait())
	}
	put("one")
	pod := b.Pod("many", map[string]string{"sources": sources(names)})
	b.Publish(pod)
	wantKeys(b, pod, many, "one")

	areOpen := func() error {
		if got := front.Watching(network.Verb("watch")); got <= many { // And the CSIDriver object.
			return fmt.Errorf("%d watches are open", got)
		}
		return nil
	}
	environment.Eventually(t, healed, areOpen)
	front.Set(network.Fault{Status: http.StatusServiceUnavailable})
	began := time.Now()
	front.EndWatches(nil)
	<-time.After(outage)
	asked := front.Asked(func(r network.Request) bool { return r.Resource == "configmaps" && r.At.After(began) })
	if most := many * 8; len(asked) > most {
		t.Errorf("%d requests during an outage of %s, want at most %d", len(asked), outage, most)
	}
	put("two")
	front.Set()
	began = time.Now()
	wantKeys(b, pod, many, "two")
	wantSpread(t, front, began, many)

	environment.Eventually(t, healed, areOpen)
	began = time.Now()
	<-time.After(2 * time.Second)
	if asked := front.Asked(func(r network.Request) bool { return r.Resource == "configmaps" && r.At.After(began) }); len(asked) > 0 {
		t.Errorf("%d requests when all is well again, want none: %v", len(asked), asked[0])
	}
}

// wantSpread wants the lists since a moment spread over seconds.
func wantSpread(t *testing.T, front *network.Front, began time.Time, many int) {
	t.Helper()
	perHalf := map[int]int{}
	for _, r := range front.Asked(network.Verb("list")) {
		if since := r.At.Sub(began); since > 0 {
			perHalf[int(since/(500*time.Millisecond))]++
		}
	}
	for half, n := range perHalf {
		if n > many/2 {
			t.Errorf("%d of %d objects were listed within half a second (number %d), want them spread: %v", n, many, half, perHalf)
		}
	}
	t.Logf("lists per half second: %v", perHalf)
}

// sources returns the attribute of a volume of all the ConfigMaps.
func sources(names []string) string {
	var text strings.Builder
	for _, name := range names {
		fmt.Fprintf(&text, "- configMap: {name: %s}\n", name)
	}
	return text.String()
}

// wantKeys waits until all keys of a volume have the value.
func wantKeys(b *fixture.Fixture, pod *corev1.Pod, many int, value string) {
	b.T.Helper()
	for n := range many {
		environment.Eventually(b.T, healed, func() error { return b.Holds(pod, fmt.Sprint("k-", n), value) })
	}
}
