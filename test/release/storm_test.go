package release

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liveconfig-csi/liveconfig/pkg/release"
	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
	"github.com/liveconfig-csi/liveconfig/test/kit/expect"
	kit "github.com/liveconfig-csi/liveconfig/test/kit/fixture"
	"github.com/liveconfig-csi/liveconfig/test/kit/soak"
)

// attack is a tenant that does everything at once that has stopped a controller or a driver before.
type attack struct {
	*kit.Fixture
	round int
}

// heavyEdits are contents that take what checks them long, or much memory.
func heavyEdits() map[string]string {
	return map[string]string{
		"a.ini":  "a=%(a)s",
		"b.toml": "a=" + strings.Repeat("[", 200_000) + strings.Repeat("]", 200_000),
		"c.json": strings.Repeat("[", 200_000) + strings.Repeat("]", 200_000),
		"d.yaml": strings.Repeat("- ", 5000) + "a",
	}
}

// put creates or changes a released ConfigMap.
func (a *attack) put(ctx context.Context, name, annotation string, data map[string]string) error {
	m := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{release.Annotation: annotation}}, Data: data,
	}
	_, err := a.ConfigMaps().Update(ctx, m, metav1.UpdateOptions{})
	if err != nil {
		_, err = a.ConfigMaps().Create(ctx, m, metav1.CreateOptions{})
	}
	return err
}

// strike writes everything once.
func (a *attack) strike(ctx context.Context) error {
	a.round++
	number := fmt.Sprint(a.round)
	var g errgroup.Group
	g.Go(func() error {
		return a.put(ctx, "annotation", "{"+strings.Repeat("a,", 8000)+"b"+number+"}", nil)
	})
	g.Go(func() error { // A mistake in a group of many.
		for i := range 10 {
			if err := a.put(ctx, fmt.Sprint("group-", i), "{group: g, steps: [1]}", map[string]string{"a": number}); err != nil {
				return err
			}
		}
		return a.put(ctx, "joins", "{group: g, step: ["+number+"]}", map[string]string{"a": number})
	})
	for key, text := range heavyEdits() {
		g.Go(func() error {
			return a.put(ctx, "check-"+key, "validate: [{key: "+key+"}]", map[string]string{key: text, "round": number})
		})
	}
	g.Go(func() error {
		for i := range 10 { // Large contents that wait for their checks.
			data := map[string]string{"a.json": `"` + strings.Repeat("x", 500_000) + `"`, "round": number}
			if err := a.put(ctx, fmt.Sprint("large-", i), "validate: [{key: a.json}]", data); err != nil {
				return err
			}
		}
		return nil
	})
	g.Go(func() error {
		for i := range 20 {
			name := hostileName((20*a.round + i) % hostileObjects)
			if err := a.PutConfigMap(ctx, name, map[string]string{name: number}); err != nil {
				return err
			}
		}
		return nil
	})
	return g.Wait()
}

// longestRelease is how long a release of the bystander may take: many times what it takes alone.
const longestRelease = 15 * time.Second

// TestAStormOfATenant: nobody else notices it: updates and releases of
// another namespace go on, and both processes stay healthy and in the memory of their containers.
func TestAStormOfATenant(t *testing.T) {
	s := newIdleSiteOf(t, newContained(t), environment.AsShipped(t, "liveconfig-controller"))
	a := &attack{Fixture: kit.NewBare(t)}
	a.Use(s.Node)
	a.AllowSecrets("default")
	s.also = a.Namespace
	s.limit()
	s.start()
	s.create("web", "{steps: [], pause: 0s}", map[string]string{"a": "1"})
	s.replicas(2, web)
	s.CreateConfigMap("plain", map[string]string{"a": "0"})
	plain := s.publish("plain", map[string]string{"configMap": "plain"})
	var list []string
	for i := range hostileObjects {
		createHostile(t, a.Fixture, i)
		list = append(list, fmt.Sprintf("- configMap: {name: %s}", hostileName(i)))
	}
	for i := range hostilePods {
		a.Publish(a.Pod(fmt.Sprint("pod-", i), map[string]string{"sources": strings.Join(list, "\n")}))
	}
	ctx, cancel := context.WithCancel(t.Context())
	var storm errgroup.Group
	rounds := soak.Rounds(5, 50)
	storm.Go(func() error {
		defer cancel()
		for range rounds {
			if err := a.strike(t.Context()); err != nil {
				return err
			}
		}
		return nil
	})
	var updates, edits []time.Duration
	for i := 0; ctx.Err() == nil; i++ {
		updates = append(updates, s.timeUpdate(plain, fmt.Sprint(i+1)))
		if i%20 == 0 {
			edits = append(edits, s.timeRelease([]string{"2", "3"}[i/20%2]))
		}
		s.Get("/healthz")
	}
	expect.NoError(t, storm.Wait())
	expect.Swift(t, "updates of the bystander", updates, time.Second/2, 3*time.Second)
	expect.Swift(t, "releases of the bystander", edits, longestRelease, longestRelease)
}

// timeUpdate changes an object that is not released, and returns how long after the API server's answer its pod has it.
func (s *site) timeUpdate(pod *corev1.Pod, value string) time.Duration {
	s.T.Helper()
	s.UpdateConfigMap("plain", map[string]string{"a": value})
	start := time.Now()
	s.eventually(func() error { return s.Holds(pod, "a", value) })
	return time.Since(start)
}

// timeRelease changes «web», and returns after how long all pods have it.
func (s *site) timeRelease(value string) time.Duration {
	s.T.Helper()
	start := time.Now()
	s.edit("web", map[string]string{"a": value})
	s.wantValues("a", map[string]int{value: len(s.pods)})
	return time.Since(start)
}
