package driver

import (
	"fmt"
	"testing"

	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
	"github.com/liveconfig-csi/liveconfig/test/kit/fixture"
	"github.com/liveconfig-csi/liveconfig/test/kit/network"
)

// isAsked returns an error until there were so many requests about a ConfigMap.
func isAsked(front *network.Front, b *fixture.Fixture, name string, times int) error {
	if got := len(front.Asked(aboutMap(b, name))); got < times {
		return fmt.Errorf("%d requests for %s, want %d", got, name, times)
	}
	return nil
}

// TestAnObjectIsDeletedAndMadeAnew is faults 25 and 26: another object of the same name takes the place of the one that
// volumes hold, while nobody watches. Volumes that are there follow it.
func TestAnObjectIsDeletedAndMadeAnew(t *testing.T) {
	t.Parallel()
	b, link := overLink(t)
	pod := publish(b, "web", "one")
	for round := range 3 {
		value := fmt.Sprint("again-", round)
		if round > 0 { // At first the watch sees it all.
			cutOff(t, link)
		}
		b.DeleteConfigMap("web")
		b.CreateConfigMap("web", map[string]string{"n": value})
		heal(t, link)
		environment.Eventually(t, healed, func() error { return b.Holds(pod, "n", value) })
	}
	set(b, "web", "last")
	b.WantFile(pod, "n", "last")
}
