package driver

import (
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liveconfig-csi/liveconfig/test/kit/cluster"
	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
	"github.com/liveconfig-csi/liveconfig/test/kit/expect"
	"github.com/liveconfig-csi/liveconfig/test/kit/fakekubelet"
	"github.com/liveconfig-csi/liveconfig/test/kit/fixture"
	"github.com/liveconfig-csi/liveconfig/test/kit/network"
	"github.com/liveconfig-csi/liveconfig/test/kit/soak"
)

// answer is how long a publish waits at most for an API server that does not answer.
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
	expect.NoError(b.T, change(b.T.Context(), b, name, value))
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
	expect.Eventually(b.T, healed, func() error {
		if front.Watching(of) == 0 {
			return errors.New("nobody watches")
		}
		return nil
	})
}

// publishSoon publishes until it succeeds.
func publishSoon(b *fixture.Fixture, pod *corev1.Pod) {
	b.T.Helper()
	expect.Eventually(b.T, fixture.Soon, func() error { return b.TryPublish(b.T.Context(), pod) })
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
	expect.Eventually(b.T, during+fixture.Soon, func() error {
		expect.NoError(b.T, b.Holds(pod, "n", "one"))
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
		expect.Eventually(b.T, within, func() error { return b.Holds(pod, "n", value) })
	}
}

// away is how long the API server is away. It is longer than it takes to notice.
const away = 2 * time.Second

// healed is how long a driver may take to be current again after an outage: its tries are up to ten seconds apart.
const healed = 10*time.Second + fixture.Soon

// TestTheAPIServerIsAwayAtTheStart is fault 24, as a node meets it that boots before its API server, or whose driver is
// restarted during an outage: the driver serves all the same, takes its volumes over as they are, answers a repeated
// publish, refuses a new one in time, and catches up by itself. /healthz stays ok. A driver that has just started
// reports that it does not know its installation.
func TestTheAPIServerIsAwayAtTheStart(t *testing.T) {
	t.Parallel()
	b, link := overLink(t, "--publish-timeout="+patience.String())
	old := publish(b, "old", "one")
	wantReady(b, "")
	expect.NoError(t, link.Cut())
	b.WantNumber(`liveconfig_volumes_not_current{kind="NotReady"}`, 1)
	wantReady(b, "")
	b.WantNumber("liveconfig_staleness_seconds", 0)
	b.Kill()
	set(b, "old", "two")
	set(b, "young", "one")
	b.Start() // It waits for Probe.
	if err := wantLogged(healthOf(b, "/readyz"), "whether the kubelet vouches for pods is not known"); err != nil {
		t.Error(err)
	}
	if got := healthOf(b, "/healthz"); got != "" {
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
	expect.NoError(t, link.Heal())
	expect.Eventually(t, healed, func() error { return b.Holds(old, "n", "two") })
	publishSoon(b, young)
	wantReady(b, "")
	b.WantNumber(`liveconfig_volumes_not_current{kind="NotReady"}`, 0)
	wantFollows(b, old, 2, fixture.Soon)
}

// TestTheNetworkSwallowsEverything is fault 24: the network drops all packets without an error, so that no connection ends and
// no request is answered. Files stay, the driver refuses a new volume in time, and afterwards works without a restart.
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
	expect.NoError(t, link.Heal())
	expect.Eventually(t, healed, func() error { return b.Holds(old, "n", "two") })
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
	expect.Eventually(t, known+healed, func() error { return b.Holds(web, "n", "two") })
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
	expect.NoError(t, err)
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	b := fixture.NewBareIn(t, c)
	b.Use(environment.NodeIn(t, c, "--http-endpoint="+b.HTTP))
	changed, deleted := publish(b, "changed", "early"), publish(b, "deleted", "early")
	untouched := publish(b, "untouched", "early")
	expect.NoError(t, c.Save(t.Context()))
	expect.Eventually(t, healed, func() error {
		set(b, "changed", "late")
		return b.Holds(changed, "n", "late")
	})
	b.DeleteConfigMap("deleted")
	b.WantEvent(deleted, "SourceMissing", "")
	generation := b.Generation(untouched)
	expect.NoError(t, c.Restore(t.Context()))
	expect.Eventually(t, healed, func() error { return b.Holds(changed, "n", "early") })
	// These objects get versions now that other contents had before the state was restored.
	wantFollows(b, changed, 3, healed)
	wantFollows(b, deleted, 1, healed)
	if got := b.Generation(untouched); got != generation {
		t.Error("a volume was written again whose object was the same all the time")
	}
}

// TestTheAPIServerGoesAwayAndComesBack is fault 24: what changes meanwhile is seen afterwards, in volumes that are there
// and in those that are published meanwhile from what is known.
func TestTheAPIServerGoesAwayAndComesBack(t *testing.T) {
	t.Parallel()
	b, link := overLink(t, "--publish-timeout="+patience.String())
	kept, deleted := publish(b, "kept", "one"), publish(b, "deleted", "one")
	expect.NoError(t, link.Cut())
	set(b, "kept", "two")
	b.DeleteConfigMap("deleted")
	wantStays(b, kept, away)
	wantStays(b, deleted, 0)
	second := b.Pod("second", map[string]string{"configMap": "kept"})
	b.Publish(second) // What is known will do.
	expect.NoError(t, link.Heal())
	expect.Eventually(t, healed, func() error { return b.Holds(kept, "n", "two") })
	expect.Eventually(t, healed, func() error { return b.Holds(second, "n", "two") })
	b.WantEvent(deleted, "SourceMissing", "")
	wantStays(b, deleted, 0)
	wantFollows(b, kept, 2, fixture.Soon)
}

// TestAnObjectIsDeletedAndCreatedAgain is faults 25 and 26: while no watch is open, another object of the same name replaces the
// one that volumes show. The volumes follow the new object.
func TestAnObjectIsDeletedAndCreatedAgain(t *testing.T) {
	t.Parallel()
	b, link := overLink(t)
	pod := publish(b, "web", "one")
	for round := range 3 {
		value := fmt.Sprint("again-", round)
		if round > 0 { // At first the watch sees it all.
			expect.NoError(t, link.Cut())
		}
		b.DeleteConfigMap("web")
		b.CreateConfigMap("web", map[string]string{"n": value})
		expect.NoError(t, link.Heal())
		expect.Eventually(t, healed, func() error { return b.Holds(pod, "n", value) })
	}
	set(b, "web", "last")
	b.WantFile(pod, "n", "last")
}

// TestDenialsOfAServerThatIsNotSure is fault 28: an API server that starts may deny everything for longer than the driver
// takes to decide again, on all nodes at once, and what stands before it may deny one object by mistake. No file goes, however
// often it denies. When the right to read is really taken away, the files go in the time that docs/security/driver.md states.
func TestDenialsOfAServerThatIsNotSure(t *testing.T) {
	t.Parallel()
	tests := map[string]func(cert func(network.Request) bool) network.Fault{
		"everything": func(func(network.Request) bool) network.Fault { return network.Fault{Status: http.StatusForbidden} },
		"the object alone": func(cert func(network.Request) bool) network.Fault {
			return network.Fault{Of: cert, Status: http.StatusForbidden}
		},
	}
	for name, denying := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const (
				recheck = 2 * time.Second
				retries = 20 * time.Second // Two, that each come as late as can be.
			)
			b, front := behindFront(t, "--recheck-interval="+recheck.String())
			b.AllowSecrets("default")
			b.SetSecret("cert", map[string]string{"n": "one"})
			pod := b.Pod("cert", map[string]string{"secret": "cert", "onDelete": "Remove"})
			b.Publish(pod)
			cert := network.About("secrets", b.Namespace, "cert")
			awaitWatch(b, front, cert)

			before := len(front.Asked(cert))
			front.Set(denying(cert))
			front.EndWatches(nil)
			b.SetSecret("cert", map[string]string{"n": "two"})
			expect.Eventually(t, time.Minute+fixture.Soon, func() error {
				expect.NoError(t, b.Holds(pod, "n", "one"))
				denied := front.Asked(cert)[before:]
				if len(denied) == 0 || denied[len(denied)-1].At.Sub(denied[0].At) < 5*recheck {
					return errors.New("it was not denied for long enough to prove anything")
				}
				return nil
			})
			front.Set()
			expect.Eventually(t, healed, func() error { return b.Holds(pod, "n", "two") })

			bindings := b.Cluster.Client().RbacV1().RoleBindings(b.Namespace)
			expect.NoError(t, bindings.Delete(t.Context(), "default", metav1.DeleteOptions{}))
			began := time.Now()
			expect.Eventually(t, recheck*5/2+retries+fixture.Soon, func() error { return fakekubelet.Gone(b.Path(pod, "n")) })
			t.Logf("the files went %s after the right to read them", time.Since(began).Round(time.Millisecond))
			b.WantEvent(pod, "AccessLost", "the files of the source are removed")
		})
	}
}
