package scale

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/liveconfig-csi/liveconfig/test/bench/scale/fleet"
	"github.com/liveconfig-csi/liveconfig/test/kit/cluster"
	"github.com/liveconfig-csi/liveconfig/test/kit/expect"
)

const (
	nodes = 5
	own   = 2
	// objects is how many all nodes watch together, each counted once for each node.
	objects = nodes * (1 + own)
	// soon is how long something may take that takes seconds when nothing else runs on the machine.
	soon = 4 * time.Minute
)

// newCrowd returns nodes with the driver's source layer that watch so many separate objects, in a separate cluster.
func newCrowd(t *testing.T, nodes, own int) (context.Context, *ground, *fleet.Crowd) {
	t.Helper()
	g, err := prepare(t.Context(), "../../..", "")
	expect.NoError(t, err)
	t.Cleanup(func() {
		if err := g.close(); err != nil {
			t.Error(err)
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	t.Cleanup(cancel)
	expect.NoError(t, g.furnish(ctx, fleet.Driver, 0, nodes, own))
	c, err := fleet.New(t.Context(), fleet.Config{
		Way: fleet.Driver, Kubeconfigs: g.kubeconfigs(fleet.Driver), Namespace: namespace, Own: own,
	})
	expect.NoError(t, err)
	t.Cleanup(c.Close)
	for n := range nodes {
		expect.NoError(t, c.Start(n))
	}
	expect.NoError(t, c.AwaitOpen(ctx))
	return ctx, g, c
}

// asked returns how often each node has asked for each object and how, by the API server's own log.
func asked(t *testing.T, g *ground) map[string]int {
	t.Helper()
	return countAudit(t, g, func(r cluster.Request) bool { return r.Stage == cluster.StageReceived })
}

func countAudit(t *testing.T, g *ground, counts func(cluster.Request) bool) map[string]int {
	t.Helper()
	all, err := g.Requests(time.Time{})
	expect.NoError(t, err)
	count := map[string]int{}
	for _, r := range all {
		if node, isOurs := strings.CutPrefix(r.UserAgent, fleet.Agent(0)[:len(fleet.Agent(0))-1]); isOurs && counts(r) {
			count[fmt.Sprintf("node %s: %s %s/%s", node, r.Verb, r.Resource, r.Name)]++
		}
	}
	return count
}

// TestGuardNodesAskForNothingMore: a node asks for each object once, with a list and a watch, however often it is edited; all
// requests of a node have one connection, and a watch goes with its last user.
func TestGuardNodesAskForNothingMore(t *testing.T) {
	t.Parallel()
	ctx, g, c := newCrowd(t, nodes, own)
	want := map[string]int{}
	for n := range nodes {
		names := []string{fleet.Shared}
		for i := range own {
			names = append(names, fleet.Own(n, i))
		}
		for _, name := range names {
			want[fmt.Sprintf("node %d: list configmaps/%s", n, name)] = 1
			want[fmt.Sprintf("node %d: watch configmaps/%s", n, name)] = 1
		}
	}
	const edits = 3
	if err := c.AwaitSightings(ctx, objects); err != nil {
		t.Fatalf("wait for all objects to be read: %v", err)
	}
	for i := range edits {
		expect.NoError(t, g.put(ctx, fleet.Shared, fmt.Sprintf("edit %d", i)))
		if err := c.AwaitSightings(ctx, objects+(i+1)*nodes); err != nil {
			t.Fatalf("wait for all nodes to see edit %d: %v", i, err)
		}
	}
	// What is asked for by the clock needs time to show: the driver looks at its watches every two seconds.
	expect.NoError(t, rest(ctx, 5*time.Second))
	if diff := gocmp.Diff(want, asked(t, g)); diff != "" {
		t.Errorf("requests of the nodes (-want +got):\n%s", diff)
	}
	if got := c.Take().Connected; got != nodes {
		t.Errorf("%d connections, want %d: one for each node", got, nodes)
	}

	expect.NoError(t, c.Release(ctx))
	closed := func(r cluster.Request) bool { return r.Stage == cluster.StageComplete && r.Verb == "watch" }
	err := wait.PollUntilContextCancel(ctx, 20*time.Millisecond, true, func(context.Context) (bool, error) {
		return len(countAudit(t, g, closed)) == objects, nil
	})
	if err != nil {
		t.Errorf("the API server still has watches that nobody needs: %d of %d are closed", len(countAudit(t, g, closed)), objects)
	}
	if diff := gocmp.Diff(want, asked(t, g)); diff != "" {
		t.Errorf("requests of the nodes when nobody needs the objects any more (-want +got):\n%s", diff)
	}
}

// TestGuardARestartIsNoLockstep: nodes whose API server is away try again after pauses that grow, and no two alike; when it is
// back, each object is listed and watched once.
func TestGuardARestartIsNoLockstep(t *testing.T) {
	t.Parallel()
	ctx, g, c := newCrowd(t, nodes, own)
	c.Take()
	expect.NoError(t, g.KillAPIServer())
	const rounds = 4 // Pauses differ by seconds after so many.
	if err := c.AwaitRequests(ctx, objects*rounds); err != nil {
		t.Fatalf("wait for tries: %v", err)
	}
	expect.NoError(t, g.StartAPIServer(ctx))
	expect.NoError(t, c.AwaitOpen(ctx))
	tries := map[string][]fleet.Request{}
	for _, r := range c.Take().Requests {
		key := fmt.Sprintf("node %d: %s", r.Node, r.Object)
		tries[key] = append(tries[key], r)
	}
	if len(tries) != objects {
		t.Fatalf("tries for %d objects, want %d", len(tries), objects)
	}
	var back []time.Time
	for key, all := range tries {
		slices.SortFunc(all, func(a, b fleet.Request) int { return cmp.Compare(a.Sent.UnixNano(), b.Sent.UnixNano()) })
		back = append(back, wantPauses(t, key, all))
	}
	const together = 100 * time.Millisecond
	if got := mostWithin(back, together); got > objects/2 {
		t.Errorf("%d of %d objects were listed within %s when the API server was back, want them apart", got, objects, together)
	}
}

// wantPauses looks at the tries for one object, and returns when the one was made that succeeded. The watch that broke may be
// opened again at once; from then on each failure has a pause.
func wantPauses(t *testing.T, key string, tries []fleet.Request) (back time.Time) {
	t.Helper()
	const (
		leastPause = 200 * time.Millisecond
		mostLists  = 3 // An API server that starts may refuse the watch that follows a list.
	)
	lists := 0
	for i, r := range tries {
		isAgain := i > 1 && tries[i-1].Code != http.StatusOK // The first of them is the watch that broke.
		if pause := r.Sent.Sub(tries[max(i-1, 0)].Answered); isAgain && pause < leastPause && r.Verb == tries[i-1].Verb {
			t.Errorf("%s: tried again %s after a failure, want %s at least", key, pause, leastPause)
		}
		if r.Verb == fleet.List && r.Code == http.StatusOK {
			lists++
			back = r.Sent
		}
	}
	last := tries[len(tries)-1]
	if lists == 0 || lists > mostLists || last.Verb != fleet.Watch || last.Code != http.StatusOK {
		t.Errorf("%s: %d lists, the last request a %s, answer %d; want one list, and a watch after it", key, lists, last.Verb, last.Code)
	}
	return back
}
