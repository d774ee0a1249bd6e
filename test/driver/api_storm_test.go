package driver

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
	"github.com/liveconfig-csi/liveconfig/test/kit/fixture"
	"github.com/liveconfig-csi/liveconfig/test/kit/network"
)

// storms are ways in which an API server refuses, by the name of the object that each is about.
func storms() map[string]network.Fault {
	return map[string]network.Fault{
		"gone":       {Status: http.StatusGone},
		"too-many":   {Status: http.StatusTooManyRequests},
		"come-later": {Status: http.StatusTooManyRequests, RetryAfter: time.Second},
		"broken":     {Status: http.StatusInternalServerError},
		"away":       {Status: http.StatusServiceUnavailable},
		"late":       {Status: http.StatusGatewayTimeout},
	}
}

// unleash makes the storms befall that share of the requests about their objects, and ends what is open.
func unleash(b *fixture.Fixture, front *network.Front, share float64, more ...network.Fault) {
	faults := more
	for name, fault := range storms() {
		fault.Of, fault.Share = aboutMap(b, name), share
		faults = append(faults, fault)
	}
	front.Set(faults...)
	front.EndWatches(nil)
}

// TestMostRequestsAreRefused is faults 24 and 30: while an API server answers most requests that it is overloaded, broken
// or has forgotten the version that was asked for, and ends every watch within a second, each change still arrives, and
// the driver does not answer refusals with another storm.
func TestMostRequestsAreRefused(t *testing.T) {
	t.Parallel()
	b, front := behindFront(t)
	pods := map[string]*corev1.Pod{}
	for name := range storms() {
		pods[name] = publishWatched(b, front, name)
	}
	before := len(front.Asked(nil))
	unleash(b, front, 0.6, network.Fault{EndAfter: time.Second})
	began := time.Now()
	for round := range 3 {
		follow(b, pods, fmt.Sprint("storm-", round))
	}
	asked := len(front.Asked(nil)) - before
	if most := len(pods) * (10 + 4*int(time.Since(began).Seconds())); asked > most {
		t.Errorf("%d requests in %s, want at most %d", asked, time.Since(began), most)
	}
	front.Set()
	front.EndWatches(nil)
	follow(b, pods, "calm")
}

// follow changes all ConfigMaps and wants the value to arrive in their pods.
func follow(b *fixture.Fixture, pods map[string]*corev1.Pod, value string) {
	b.T.Helper()
	names := slices.Sorted(maps.Keys(pods))
	for _, name := range names {
		set(b, name, value)
	}
	for _, name := range names {
		// Two tries in a row may be refused, at worst.
		environment.Eventually(b.T, 2*healed, func() error { return b.Holds(pods[name], "n", value) })
	}
}

// TestNothingButRefusals is fault 24, and fault 28 for what is forbidden: an API server that starts denies everything until
// it knows the roles. Nothing gets through for a while. The files stay, also those that are to go with the right to read
// their source; new volumes are refused in time; and it is over when it is over.
func TestNothingButRefusals(t *testing.T) {
	t.Parallel()
	b, front := behindFront(t, "--publish-timeout="+patience.String())
	b.AllowSecrets("default")
	pods := map[string]*corev1.Pod{}
	for name := range storms() {
		pods[name] = publishWatched(b, front, name)
	}
	b.SetSecret("cert", map[string]string{"n": "one"})
	cert := b.Pod("cert", map[string]string{"secret": "cert", "onDelete": "Remove"})
	b.Publish(cert)
	forbidden := network.Fault{Of: network.About("secrets", b.Namespace, "cert"), Status: http.StatusForbidden}
	awaitWatch(b, front, forbidden.Of)
	unleash(b, front, 0, forbidden)
	b.SetSecret("cert", map[string]string{"n": "two"})
	for name := range storms() {
		set(b, name, "two")
	}
	began := time.Now()
	set(b, "young", "one")
	young := network.Fault{Of: aboutMap(b, "young"), Status: http.StatusInternalServerError}
	unleash(b, front, 0, forbidden, young)
	wantUnavailable(b, b.Pod("young", map[string]string{"configMap": "young"}))
	wantStays(b, cert, max(0, 5*time.Second-time.Since(began)))
	for _, pod := range pods {
		wantStays(b, pod, 0)
	}
	front.Set()
	for _, pod := range pods {
		environment.Eventually(t, healed, func() error { return b.Holds(pod, "n", "two") })
	}
	environment.Eventually(t, healed, func() error { return b.Holds(cert, "n", "two") })
}
