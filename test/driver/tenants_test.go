package driver

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"

	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
	"github.com/liveconfig-csi/liveconfig/test/kit/expect"
	"github.com/liveconfig-csi/liveconfig/test/kit/fixture"
	"github.com/liveconfig-csi/liveconfig/test/kit/network"
	"github.com/liveconfig-csi/liveconfig/test/kit/soak"
)

// manyFiles is the text of as many items as an attribute holds, all of one key.
func manyFiles(key string) string {
	const letters = "ghijklmpqrstuvwz" // They make no numbers.
	var text strings.Builder
	for i := range 3448 {
		fmt.Fprintf(&text, "{key: %s,path: %c%c%c},", key, letters[i>>8], letters[i>>4&15], letters[i&15])
	}
	return "[" + text.String() + "]"
}

// expensiveTexts are what takes a reader of YAML longest.
func expensiveTexts() []string {
	filled := func(open, part, end string) string {
		return open + strings.Repeat(part, (64<<10-len(open)-len(end))/len(part)) + end
	}
	return []string{
		filled("[", "{a,a,a,a,a,a,a,a},", "]"),
		filled("[", "a,", "]"),
		filled("{", "a,", "}"),
		filled("[", "{},", "]"),
		filled("- {configMap: &a {name: app}}\n", "- {secret: *a}\n", ""),
		filled("- &a ["+strings.Repeat("{secret: {name: x}}, ", 2000)+"]\n- [", "*a, ", "]"),
		filled("[", "{secret: {name: x}},", "]"),
		filled("[", "!!str a,", "]"),
		strings.Repeat("[", 9000) + strings.Repeat("]", 9000),
	}
}

// What a bystander may notice of a storm of tenants at most. Updates are a matter of milliseconds, and the API server, which is
// slow in the storm, reports them without being asked; a publish has to ask it. Half of the updates have the first time, and few may
// take longer than the second one: the storm, the API server and the driver share the processors of one machine.
const (
	stormUpdate  = time.Second / 2
	slowUpdate   = 3 * time.Second
	stormPublish = 15 * time.Second
	stormLatency = 1200 * time.Millisecond
	stormTenants = 20
)

// TestAStormOfTenants is faults 30 and 37 to 40: the pods of twenty namespaces do all at once what is meant to starve others,
// while the API server is slow. A bystander has its updates and its new volumes in time, and the driver stays within the
// memory that its container usually has.
func TestAStormOfTenants(t *testing.T) {
	// Not parallel: it measures how long things take.
	b, front := newStorm(t)
	pod := publish(b, "bystander", "0")
	for i := range 3 {
		set(b, fmt.Sprint("new-", i), "one")
	}
	tenants := make([]*tenant, stormTenants)
	for i := range tenants {
		tenants[i] = newTenant(b, i)
	}
	front.Set(network.Fault{Delay: stormLatency})
	ctx, end := context.WithTimeout(t.Context(), time.Duration(soak.Rounds(20, 600))*time.Second)
	defer end()
	pid := b.Node.PID()
	var all sync.WaitGroup
	for _, tenant := range tenants {
		all.Go(func() { tenant.rage(ctx) })
	}
	var updates, publishes []time.Duration
	all.Go(func() { updates = followed(ctx, b, pod) })
	all.Go(func() { publishes = published(ctx, b) })
	all.Wait()
	front.Set()
	if b.Node.PID() != pid || b.Node.Alive() != nil {
		t.Errorf("the driver did not live on: %v", b.Node.Alive())
	}
	expect.Swift(t, "updates", updates, stormUpdate, slowUpdate)
	expect.Swift(t, "publishes", publishes, stormPublish, stormPublish)
}

// newStorm returns a bench whose driver has the container of the chart, as far as memory goes, and reaches the API server
// through the front.
func newStorm(t *testing.T) (*fixture.Fixture, *network.Front) {
	t.Helper()
	launcher := environment.Contained(t, environment.ChartMemory(t, environment.DriverContainer))
	b := fixture.NewBare(t)
	front := network.NewFront(t, b.Cluster)
	args := []string{"--http-endpoint=" + b.HTTP}
	if launcher == nil {
		args = append(args, "--volume-memory=350Mi")
	}
	b.Use(environment.NodeLaunchedThrough(t, front, launcher, args...))
	return b, front
}

// tenant is a namespace whose pods do what they can.
type tenant struct {
	*fixture.Fixture
	live *corev1.Pod // Whose one key makes thousands of files.
}

// newTenant returns a tenant of the node, which has its volumes of long attributes by then.
func newTenant(b *fixture.Fixture, i int) *tenant {
	b.T.Helper()
	inner := fixture.NewBare(b.T)
	inner.Node, inner.HTTP = b.Node, b.HTTP
	t := &tenant{Fixture: inner}
	t.CreateConfigMap("small", map[string]string{"k": "small"})
	t.CreateConfigMap("large", map[string]string{"k": strings.Repeat("x", large)})
	if i%10 == 0 { // Each takes 20 MiB of the node's room, which is not shared out.
		t.live = t.Pod("live", map[string]string{"configMap": "small", "items": manyFiles("k")})
		t.Publish(t.live)
	}
	for j := range 2 {
		t.Publish(t.Pod(fmt.Sprint("long-", j), map[string]string{"configMap": "small", "items": manyFiles("m"), "optional": "true"}))
	}
	return t
}

// rage does what it can until ctx ends. Nothing of it has to succeed.
func (t *tenant) rage(ctx context.Context) {
	for round := 0; ctx.Err() == nil; round++ {
		var g errgroup.Group
		for j, text := range expensiveTexts() {
			g.Go(func() error {
				return t.tryOnce(ctx, fmt.Sprint("text-", round, "-", j), map[string]string{"sources": text})
			})
		}
		g.Go(func() error {
			return t.tryOnce(ctx, fmt.Sprint("huge-", round), map[string]string{"configMap": "large", "items": manyFiles("k")})
		})
		g.Go(func() error {
			return t.tryOnce(ctx, fmt.Sprint("many-", round), map[string]string{"sources": t.strangers(round)})
		})
		if t.live != nil {
			g.Go(func() error { return t.swell(ctx, round) })
		}
		_ = g.Wait()
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
		}
	}
}

// strangers are sources that no volume has used before.
func (t *tenant) strangers(round int) string {
	var text strings.Builder
	for i := range 40 {
		fmt.Fprintf(&text, "- configMap: {name: stranger-%d-%d, optional: true}\n", round, i)
	}
	return text.String()
}

// swell makes the one key that thousands of files have as large as an object, or small again.
func (t *tenant) swell(ctx context.Context, round int) error {
	value := "small"
	if round%2 == 0 {
		value = strings.Repeat("y", large)
	}
	return t.PutConfigMap(ctx, "small", map[string]string{"k": value})
}

// tryOnce publishes a volume, if that can be, and takes it away.
func (t *tenant) tryOnce(ctx context.Context, name string, attributes map[string]string) error {
	pod := t.Pod(name, attributes)
	err := t.TryPublish(ctx, pod)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), fixture.Soon)
	defer cancel()
	return errors.Join(err, t.Node.UnpublishAll(ctx, pod))
}

// followed changes the bystander's object again and again, and returns how long each change took to be in the file.
func followed(ctx context.Context, b *fixture.Fixture, pod *corev1.Pod) (took []time.Duration) {
	for n := 1; ctx.Err() == nil; n++ {
		value := fmt.Sprint(n)
		if err := change(ctx, b, pod.Name, value); err != nil {
			return took
		}
		began := time.Now()
		for b.Holds(pod, "n", value) != nil {
			if time.Since(began) > fixture.Soon {
				b.T.Errorf("change %d did not arrive in %s", n, fixture.Soon)
				return took
			}
			<-time.After(time.Millisecond)
		}
		took = append(took, time.Since(began))
		<-time.After(100 * time.Millisecond)
	}
	return took
}

// published publishes volumes of objects that are new on the node, one after the other, and returns how long each took.
func published(ctx context.Context, b *fixture.Fixture) (took []time.Duration) {
	for n := 0; ctx.Err() == nil; n++ {
		pod := b.Pod(fmt.Sprint("newcomer-", n), map[string]string{"configMap": fmt.Sprint("new-", n%3)})
		began := time.Now()
		if err := publishAsKubelet(context.WithoutCancel(ctx), b, pod); err != nil {
			b.T.Errorf("publish of a newcomer: %v", err)
			return took
		}
		took = append(took, time.Since(began))
		b.Unpublish(pod)
	}
	return took
}

// publishAsKubelet publishes, and retries while there is no room: first after half a second, then at growing intervals.
func publishAsKubelet(ctx context.Context, b *fixture.Fixture, pod *corev1.Pod) (err error) {
	for pause := 500 * time.Millisecond; pause < stormPublish; pause *= 2 {
		if err = b.TryPublish(ctx, pod); status.Code(err) != codes.ResourceExhausted {
			return err
		}
		<-time.After(pause)
	}
	return err
}
