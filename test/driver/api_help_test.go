package driver

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"

	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
	"github.com/liveconfig-csi/liveconfig/test/kit/fixture"
	"github.com/liveconfig-csi/liveconfig/test/kit/network"
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
