package driver

import (
	"errors"
	"testing"
	"time"

	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
	"github.com/liveconfig-csi/liveconfig/test/kit/fixture"
	"github.com/liveconfig-csi/liveconfig/test/kit/network"
	"github.com/liveconfig-csi/liveconfig/test/kit/soak"
)

// TestAPodsWatchDiesSilently is fault 24: the connection lives, and the watch stays open and brings nothing more. One of a
// pod's is opened again often, and so is soon known to be dead.
func TestAPodsWatchDiesSilently(t *testing.T) {
	t.Parallel()
	// The watch was to last two seconds, and is given a quarter of a minute more.
	const known = 19 * time.Second
	b, front := behindFront(t, "--recheck-interval=2s")
	b.AllowSecrets("default")
	b.SetSecret("cert", map[string]string{"n": "one"})
	pod := b.Pod("cert", map[string]string{"secret": "cert"})
	b.Publish(pod)
	about := network.About("secrets", b.Namespace, "cert")
	watches := network.All(network.Verb("watch"), about)
	front.Set(network.Fault{Of: about, Silent: true})
	before := len(front.Asked(watches))
	environment.Eventually(t, fixture.Soon, func() error {
		if len(front.Asked(watches)) == before {
			return errors.New("the watch that is to die was not opened")
		}
		return nil
	})
	b.SetSecret("cert", map[string]string{"n": "two"})
	front.Set()
	began := time.Now()
	environment.Eventually(t, known+healed, func() error { return b.Holds(pod, "n", "two") })
	t.Logf("the dead watch was replaced after %s", time.Since(began).Round(time.Second))
}

// TestAWatchDiesSilently is fault 24 for a watch of the driver's own. It is known by the bookmarks that it lacks, which
// takes minutes: the usual run proves only that a watch that lives is left alone.
func TestAWatchDiesSilently(t *testing.T) {
	t.Parallel()
	const (
		bookmarked = 130 * time.Second // By then a watch has had its first one.
		known      = 185 * time.Second
	)
	b, front := behindFront(t)
	web, alive := publishWatched(b, front, "web"), publishWatched(b, front, "alive")
	if soak.Rounds(0, 1) == 0 {
		wantStays(b, web, 5*time.Second)
		wantRequests(b, front, "web", 2)
		return
	}
	wantStays(b, web, bookmarked)
	if got := front.Silence(aboutMap(b, "web")); got != 1 {
		t.Fatalf("%d watches were open, want one", got)
	}
	set(b, "web", "two")
	began := time.Now()
	environment.Eventually(t, known+healed, func() error { return b.Holds(web, "n", "two") })
	t.Logf("the dead watch was replaced after %s", time.Since(began).Round(time.Second))
	wantRequests(b, front, "web", 4)
	wantRequests(b, front, "alive", 2)
	wantStays(b, alive, 0)
	b.WantNumber("liveconfig_watches_replaced_total", 1)
}

// wantRequests wants so many requests about a ConfigMap since it was published: a list and a watch, and again for each
// time that its watch was replaced.
func wantRequests(b *fixture.Fixture, front *network.Front, name string, want int) {
	b.T.Helper()
	if got := front.Asked(aboutMap(b, name)); len(got) != want {
		b.T.Errorf("%d requests for %s, want %d: %v", len(got), name, want, got)
	}
}
