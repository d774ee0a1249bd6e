package driver

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"

	"github.com/liveconfig-csi/liveconfig/test/kit/expect"
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
		expect.Eventually(b.T, 2*healed, func() error { return b.Holds(pods[name], "n", value) })
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
		expect.Eventually(t, healed, func() error { return b.Holds(pod, "n", "two") })
	}
	expect.Eventually(t, healed, func() error { return b.Holds(cert, "n", "two") })
}

// prompt is how long something takes at most that nothing delays, on a busy machine. It is less than the delays that it
// is distinguished from.
const prompt = 30 * time.Second

// TestBadSourcesDelayNoOther is fault 30: a fault of some objects, however long it lasts, does not delay others, be
// that in a volume that is there, in one that is published, or after a restart.
func TestBadSourcesDelayNoOther(t *testing.T) {
	t.Parallel()
	b, front := behindFront(t, "--publish-timeout=1h")
	good := publishWatched(b, front, "good")
	var faults []network.Fault
	var waiting sync.WaitGroup
	for name, fault := range map[string]network.Fault{
		"silent":    {Delay: time.Hour},
		"forbidden": {Status: http.StatusForbidden},
		"broken":    {Status: http.StatusInternalServerError},
		"too-much":  {Status: http.StatusTooManyRequests, RetryAfter: time.Hour},
	} {
		set(b, name, "one")
		fault.Of = aboutMap(b, name)
		faults = append(faults, fault)
		front.Set(faults...)
		pod := b.Pod(name, map[string]string{"configMap": name})
		waiting.Go(func() {
			if err := b.TryPublish(t.Context(), pod); err == nil {
				t.Errorf("a volume of what is %s was published", pod.Name)
			}
		})
		expect.Eventually(t, fixture.Soon, func() error { return isAsked(front, b, name, 1) })
	}
	wantPrompt(b, good, "two")
	b.Kill()
	waiting.Wait()
	b.Start()
	wantPrompt(b, good, "three")
	front.Set()
}

// wantPrompt wants an update to arrive and a new volume to be published without delay.
func wantPrompt(b *fixture.Fixture, pod *corev1.Pod, value string) {
	b.T.Helper()
	began := time.Now()
	set(b, pod.Name, value)
	b.WantFile(pod, "n", value)
	publish(b, "new-"+value, "one")
	if took := time.Since(began); took > prompt {
		b.T.Errorf("an update and a publish took %s, want them prompt", took)
	}
}

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
		expect.NoError(t, group.Wait())
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
	expect.Eventually(t, healed, areOpen)
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

	expect.Eventually(t, healed, areOpen)
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
		expect.Eventually(b.T, healed, func() error { return b.Holds(pod, fmt.Sprint("k-", n), value) })
	}
}
