package driver

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"

	"github.com/liveconfig-csi/liveconfig/test/kit/cluster"
	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
	"github.com/liveconfig-csi/liveconfig/test/kit/fixture"
	"github.com/liveconfig-csi/liveconfig/test/kit/network"
	"github.com/liveconfig-csi/liveconfig/test/kit/soak"
)

// answer is how long a publish waits at most for an API server that says nothing.
const answer = 20 * time.Second

// patience is how long a publish waits for a source in tests in which it waits in vain.
const patience = time.Second

// overLink is a bench whose driver reaches the API server over a link.
func overLink(t *testing.T, args ...string) (*fixture.Fixture, *network.Link) {
	t.Helper()
	b := fixture.NewBare(t)
	link := network.New(t, b.Cluster.AdminConfig().Host)
	b.Use(environment.NodeThrough(t, link, append(args, "--http-endpoint="+b.HTTP)...))
	return b, link
}

// behindFront is a bench whose driver reaches the API server through a front.
func behindFront(t *testing.T, args ...string) (*fixture.Fixture, *network.Front) {
	t.Helper()
	b := fixture.NewBare(t)
	front := network.NewFront(t, b.Cluster)
	b.Use(environment.NodeThrough(t, front, append(args, "--http-endpoint="+b.HTTP)...))
	return b, front
}

// aboutMap matches requests about a ConfigMap of the bench.
func aboutMap(b *fixture.Fixture, name string) func(network.Request) bool {
	return network.About("configmaps", b.Namespace, name)
}

// set gives a ConfigMap of one key a value, and makes it if it is not there.
func set(b *fixture.Fixture, name, value string) {
	b.T.Helper()
	must(b.T, change(b.T.Context(), b, name, value))
}

// publish publishes a volume of a ConfigMap, which holds the value.
func publish(b *fixture.Fixture, name, value string) *corev1.Pod {
	b.T.Helper()
	set(b, name, value)
	pod := b.Pod(name, map[string]string{"configMap": name})
	b.Publish(pod)
	b.WantFile(pod, "n", value)
	return pod
}

// publishWatched publishes a volume of a ConfigMap, which holds «one», behind a front, and returns when the ConfigMap is watched.
func publishWatched(b *fixture.Fixture, front *network.Front, name string) *corev1.Pod {
	b.T.Helper()
	pod := publish(b, name, "one")
	awaitWatch(b, front, aboutMap(b, name))
	return pod
}

// awaitWatch returns when an object is watched.
func awaitWatch(b *fixture.Fixture, front *network.Front, of func(network.Request) bool) {
	b.T.Helper()
	environment.Eventually(b.T, healed, func() error {
		if front.Watching(of) == 0 {
			return errors.New("nobody watches")
		}
		return nil
	})
}

// publishSoon publishes until it succeeds.
func publishSoon(b *fixture.Fixture, pod *corev1.Pod) {
	b.T.Helper()
	environment.Eventually(b.T, fixture.Soon, func() error { return b.TryPublish(b.T.Context(), pod) })
	b.T.Cleanup(func() { b.Unpublish(pod) })
}

// wantUnavailable publishes a volume that has to wait for the API server in vain. It gets a clear error in time, and nothing is
// left of the try.
func wantUnavailable(b *fixture.Fixture, pod *corev1.Pod) {
	b.T.Helper()
	began := time.Now()
	err := b.TryPublish(b.T.Context(), pod)
	if status.Code(err) != codes.Unavailable {
		b.T.Errorf("publish gave %v, want %s", err, codes.Unavailable)
	}
	if took := time.Since(began); took > answer+fixture.Soon/2 {
		b.T.Errorf("publish took %s, want at most %s", took, answer)
	}
	b.WantNothing(pod, "a publish in vain")
}

// wantStays wants a file to hold «one» all the time.
func wantStays(b *fixture.Fixture, pod *corev1.Pod, during time.Duration) {
	b.T.Helper()
	deadline := time.Now().Add(during)
	environment.Eventually(b.T, during+fixture.Soon, func() error {
		must(b.T, b.Holds(pod, "n", "one"))
		if time.Now().Before(deadline) {
			return errors.New("it is not over")
		}
		return nil
	})
}

// wantFollows changes a ConfigMap some times and wants each value to arrive, and arrive within the time given.
func wantFollows(b *fixture.Fixture, pod *corev1.Pod, times int, within time.Duration) {
	b.T.Helper()
	for n := range times {
		value := fmt.Sprint("follow-", n)
		set(b, pod.Name, value)
		environment.Eventually(b.T, within, func() error { return b.Holds(pod, "n", value) })
	}
}

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
	must(t, link.Cut())
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
	must(t, link.Heal())
	environment.Eventually(t, healed, func() error { return b.Holds(old, "n", "two") })
	publishSoon(b, young)
	wantReady(b, "")
	b.WantNumber(`liveconfig_volumes_not_current{kind="NotReady"}`, 0)
	wantFollows(b, old, 2, fixture.Soon)
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
	must(t, link.Heal())
	environment.Eventually(t, healed, func() error { return b.Holds(old, "n", "two") })
	publishSoon(b, young)
	wantFollows(b, old, 2, fixture.Soon)
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

// isAsked returns an error until there were so many requests about a ConfigMap.
func isAsked(front *network.Front, b *fixture.Fixture, name string, times int) error {
	if got := len(front.Asked(aboutMap(b, name))); got < times {
		return fmt.Errorf("%d requests for %s, want %d", got, name, times)
	}
	return nil
}

// TestEtcdIsRestored is faults 24 and 26, in a separate cluster: the API server and etcd are restarted, and an older
// state of all objects is restored, with resource versions that have been given to other contents before. Volumes follow.
func TestEtcdIsRestored(t *testing.T) {
	t.Parallel()
	environment.Cluster(t)
	c, err := cluster.Start(t.Context(), cluster.Config{Output: t.Output()})
	must(t, err)
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	b := fixture.NewBareIn(t, c)
	b.Use(environment.NodeIn(t, c, "--http-endpoint="+b.HTTP))
	changed, deleted := publish(b, "changed", "early"), publish(b, "deleted", "early")
	untouched := publish(b, "untouched", "early")
	must(t, c.Save(t.Context()))
	environment.Eventually(t, healed, func() error {
		set(b, "changed", "late")
		return b.Holds(changed, "n", "late")
	})
	b.DeleteConfigMap("deleted")
	b.WantEvent(deleted, "SourceMissing", "")
	generation := b.Generation(untouched)
	must(t, c.Restore(t.Context()))
	environment.Eventually(t, healed, func() error { return b.Holds(changed, "n", "early") })
	// These objects get versions now that other contents had before the state was restored.
	wantFollows(b, changed, 3, healed)
	wantFollows(b, deleted, 1, healed)
	if got := b.Generation(untouched); got != generation {
		t.Error("a volume was written again whose object was the same all the time")
	}
}
