package driver

import (
	"fmt"
	"net"
	"strings"
	"testing"
)

// TestAKilledDriverProjectsWhatChangedWhileItWasAway is fault 19.
// A restart without a change writes nothing.
func TestAKilledDriverProjectsWhatChangedWhileItWasAway(t *testing.T) {
	t.Parallel()
	overOrigins(t, func(t *testing.T, b *rig) {
		t.Helper()
		pod := publish(b.Fixture, "web", "red")
		before := b.Generation(pod)
		b.Stop()
		b.WantFile(pod, "n", "red")
		b.Start()
		b.wantMore(foundUnchanged, 0)
		if after := b.Generation(pod); after != before {
			t.Errorf("generation %s became %s over a restart without a change", before, after)
		}
		for i := range 3 {
			b.Kill()
			color := fmt.Sprintf("green-%d", i)
			b.UpdateConfigMap("web", map[string]string{"n": color})
			b.Start()
			b.WantFile(pod, "n", color)
		}
		b.WantMounts(1, "after the restarts")
	})
}

// TestADriverWithoutItsAddressTouchesNothing: where somebody else listens, it ends before it takes over a volume, with an edit
// to be made in it.
func TestADriverWithoutItsAddressTouchesNothing(t *testing.T) {
	t.Parallel()
	b := newRig(t)
	pod := publish(b.Fixture, "web", "red")
	b.Kill()
	before := b.listing()
	other, err := new(net.ListenConfig).Listen(t.Context(), "tcp", b.HTTP)
	must(t, err)
	defer other.Close()
	b.UpdateConfigMap("web", map[string]string{"n": "blue"})
	if err := b.Node.StartDriver(t.Context()); err == nil || !strings.Contains(err.Error(), "listen on "+b.HTTP+" for HTTP: ") {
		t.Errorf("StartDriver = %v, want it to say that the address is taken", err)
	}
	b.wantUnchanged(before, "after a start without the address")
	b.WantFile(pod, "n", "red")

	must(t, other.Close())
	b.Start()
	b.WantFile(pod, "n", "blue")
}

func TestPublishWaitsForARequiredSource(t *testing.T) {
	t.Parallel()
	overOrigins(t, func(t *testing.T, b *rig) {
		t.Helper()
		pod := b.Pod("web", map[string]string{"configMap": "late"})
		published := make(chan error, 1)
		ctx := t.Context()
		go func() { published <- b.TryPublish(ctx, pod) }()
		b.WantEvent(pod, "WaitingForSource", `configmap "late" not found`)
		b.CreateConfigMap("late", map[string]string{"color": "red"})
		must(t, <-published)
		b.WantFile(pod, "color", "red")
		b.Unpublish(pod)
	})
}
