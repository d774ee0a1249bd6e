package driver

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
	"github.com/liveconfig-csi/liveconfig/test/kit/fixture"
	"github.com/liveconfig-csi/liveconfig/test/kit/network"
	"github.com/liveconfig-csi/liveconfig/test/kit/soak"
)

// TestASecondUserComesBeforeTheFirstAnswer is fault 27: two pods wait for the same object while its first list is still
// on the way, and the one that came first gives up. The other one gets it.
func TestASecondUserComesBeforeTheFirstAnswer(t *testing.T) {
	t.Parallel()
	b, front := behindFront(t)
	set(b, "web", "one")
	front.Set(network.Fault{Of: network.All(network.Verb("list"), aboutMap(b, "web")), Delay: 2 * time.Second})
	first, second := b.Pod("first", map[string]string{"configMap": "web"}), b.Pod("second", map[string]string{"configMap": "web"})
	ctx, giveUp := context.WithCancel(t.Context())
	defer giveUp()
	var users sync.WaitGroup
	users.Go(func() {
		if err := b.TryPublish(ctx, first); err == nil {
			t.Error("the first one was published, want it given up")
		}
	})
	environment.Eventually(t, fixture.Soon, func() error { return isAsked(front, b, "web", 1) })
	users.Go(func() {
		environment.Eventually(t, fixture.Soon, func() error { return isAsked(front, b, "web", 1) })
		giveUp()
	})
	publishSoon(b, second)
	users.Wait()
	b.WantFile(second, "n", "one")
	front.Set()
	set(b, "web", "two")
	b.WantFile(second, "n", "two")
}

// isAsked returns an error until there were so many requests about a ConfigMap.
func isAsked(front *network.Front, b *fixture.Fixture, name string, times int) error {
	if got := len(front.Asked(aboutMap(b, name))); got < times {
		return fmt.Errorf("%d requests for %s, want %d", got, name, times)
	}
	return nil
}

// TestPodsComeAndGoAroundOneObject is fault 27: while the last user of an object leaves, the next one comes. It gets the
// object as it is, and what changes from then on.
func TestPodsComeAndGoAroundOneObject(t *testing.T) {
	t.Parallel()
	b := fixture.New(t)
	set(b, "web", "0")
	leaving := b.Pod("pod-0", map[string]string{"configMap": "web"})
	b.Publish(leaving)
	for round := range soak.Rounds(15, 300) {
		next := b.Pod(fmt.Sprint("pod-", round+1), map[string]string{"configMap": "web"})
		value := fmt.Sprint(round + 1)
		var both sync.WaitGroup
		both.Go(func() {
			if err := b.Node.UnpublishAll(t.Context(), leaving); err != nil {
				t.Error(err)
			}
		})
		both.Go(func() {
			if err := b.TryPublish(t.Context(), next); err != nil {
				t.Error(err)
			}
		})
		both.Go(func() {
			if err := change(t.Context(), b, "web", value); err != nil {
				t.Error(err)
			}
		})
		both.Wait()
		b.WantFile(next, "n", value)
		leaving = next
	}
	b.Unpublish(leaving)
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
