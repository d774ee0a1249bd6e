package driver

import (
	"testing"
	"time"

	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
	"github.com/liveconfig-csi/liveconfig/test/kit/fixture"
	"github.com/liveconfig-csi/liveconfig/test/kit/network"
)

// away is how long the API server is away. It is longer than it takes to notice.
const away = 2 * time.Second

// healed is how long a driver may take to be current again after an outage: its tries are up to ten seconds apart.
const healed = 10*time.Second + fixture.Soon

// TestTheAPIServerIsAwayAtTheStart is fault 24, as a node meets it that boots before its API server, or whose driver is
// restarted during an outage: the driver serves all the same, takes its volumes over as they are, answers a repeated
// publish, refuses a new one in time, and catches up by itself. The outage is no reason to restart the driver. A driver that
// has just started says that it does not know its installation.
func TestTheAPIServerIsAwayAtTheStart(t *testing.T) {
	t.Parallel()
	b, link := overLink(t, "--publish-timeout="+patience.String())
	old := publish(b, "old", "one")
	wantReady(b, "")
	cutOff(t, link)
	b.WantNumber(`liveconfig_volumes_not_current{kind="NotReady"}`, 1)
	wantReady(b, "")
	b.WantNumber("liveconfig_staleness_seconds", 0)
	b.Kill()
	set(b, "old", "two")
	set(b, "young", "one")
	b.Start() // It waits for Probe.
	if err := wantSaid(says(b, "/readyz"), "whether the kubelet vouches for pods is not known"); err != nil {
		t.Error(err)
	}
	if got := says(b, "/healthz"); got != "" {
		t.Errorf("/healthz says %q, want ok", got)
	}
	b.WantNumber("liveconfig_recovered_volumes", 1)
	b.WantMounts(1, "after the start")
	wantStays(b, old, away)
	if err := b.TryPublish(t.Context(), old); err != nil {
		t.Errorf("a repeated publish: %v, want no error", err)
	}
	young := b.Pod("young", map[string]string{"configMap": "young"})
	wantUnavailable(b, young)
	wantStays(b, old, 0)
	heal(t, link)
	environment.Eventually(t, healed, func() error { return b.Holds(old, "n", "two") })
	publishSoon(b, young)
	wantReady(b, "")
	b.WantNumber(`liveconfig_volumes_not_current{kind="NotReady"}`, 0)
	wantFollows(b, old, 2, fixture.Soon)
}

// TestTheAPIServerGoesAwayAndComesBack is fault 24: what changes meanwhile is seen afterwards, in volumes that are there
// and in those that are published meanwhile from what is known.
func TestTheAPIServerGoesAwayAndComesBack(t *testing.T) {
	t.Parallel()
	b, link := overLink(t, "--publish-timeout="+patience.String())
	kept, deleted := publish(b, "kept", "one"), publish(b, "deleted", "one")
	cutOff(t, link)
	set(b, "kept", "two")
	b.DeleteConfigMap("deleted")
	wantStays(b, kept, away)
	wantStays(b, deleted, 0)
	second := b.Pod("second", map[string]string{"configMap": "kept"})
	b.Publish(second) // What is known will do.
	heal(t, link)
	environment.Eventually(t, healed, func() error { return b.Holds(kept, "n", "two") })
	environment.Eventually(t, healed, func() error { return b.Holds(second, "n", "two") })
	b.WantEvent(deleted, "SourceMissing", "")
	wantStays(b, deleted, 0)
	wantFollows(b, kept, 2, fixture.Soon)
}

// TestTheNetworkSwallowsEverything is fault 24: packets are lost and nobody is notified, so that no connection ends and no
// request is answered. Files stay, a new volume is refused in time, and nothing has to be restarted afterwards.
func TestTheNetworkSwallowsEverything(t *testing.T) {
	t.Parallel()
	b, link := overLink(t, "--publish-timeout="+patience.String())
	old := publish(b, "old", "one")
	link.Freeze()
	set(b, "old", "two")
	set(b, "young", "one")
	young := b.Pod("young", map[string]string{"configMap": "young"})
	wantUnavailable(b, young)
	wantStays(b, old, away)
	b.Kill() // One that starts inside the hole has no connection at all yet.
	b.Start()
	wantStays(b, old, 0)
	heal(t, link)
	environment.Eventually(t, healed, func() error { return b.Holds(old, "n", "two") })
	publishSoon(b, young)
	wantFollows(b, old, 2, fixture.Soon)
}

// TestASlowNetworkDelaysNothingElse is fault 24: everything arrives, later.
func TestASlowNetworkDelaysNothingElse(t *testing.T) {
	t.Parallel()
	b, link := overLink(t)
	pod := publish(b, "web", "one")
	link.Slow(300 * time.Millisecond)
	wantFollows(b, pod, 3, fixture.Soon)
	publish(b, "another", "one")
}

func cutOff(t *testing.T, link *network.Link) {
	t.Helper()
	must(t, link.Cut())
}

func heal(t *testing.T, link *network.Link) {
	t.Helper()
	must(t, link.Heal())
}
