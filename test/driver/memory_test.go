package driver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
	"github.com/liveconfig-csi/liveconfig/test/kit/expect"
	"github.com/liveconfig-csi/liveconfig/test/kit/fixture"
	"github.com/liveconfig-csi/liveconfig/test/kit/memcg"
)

const (
	// smallContainer is the memory limit of the tests' drivers: not much more than they need for themselves.
	smallContainer = 64 << 20
	// roomInIt is what volumes get of it.
	roomInIt = "18Mi"
	// large is how much is in an object: nearly as much as there may be.
	large = 1_000_000
	// atLength is how long something may take that takes seconds when nothing else runs on the machine.
	atLength = 2 * time.Minute
)

// small is a bench whose driver has little memory.
type small struct {
	*fixture.Fixture
	group   *memcg.Group // Nil where none can be made.
	objects int          // With a key each, which the pods have in turn.
}

// newSmall returns a bench with a driver in a small container. Where control groups cannot be made, the driver gets a flag for how
// little it has: all that is not seen then is that the kernel finds nothing to kill.
func newSmall(t *testing.T, bare func(testing.TB) *fixture.Fixture, objects int) *small {
	t.Helper()
	b := newContained(t, bare, objects)
	if b.group == nil {
		b.launch("--volume-memory=" + roomInIt)
	} else {
		b.launch()
	}
	t.Cleanup(b.wantAlive)
	return b
}

// newContained returns a bench without a driver, and a small container for one, where an ordinary user may make it.
func newContained(t *testing.T, bare func(testing.TB) *fixture.Fixture, objects int) *small {
	t.Helper()
	b := &small{Fixture: bare(t), objects: objects}
	group, err := memcg.New("liveconfig-"+b.Namespace, smallContainer)
	switch {
	case errors.Is(err, memcg.ErrForbidden):
		t.Logf("the driver runs in no small container: %v", err)
		return b
	case err != nil:
		t.Fatal(err)
	}
	b.group = group
	t.Cleanup(func() {
		if err := group.Remove(); err != nil {
			t.Errorf("remove the control group: %v", err)
		}
	})
	return b
}

// launch starts the driver with further flags, in the container if there is one.
func (b *small) launch(args ...string) {
	b.T.Helper()
	var launcher []string
	if b.group != nil {
		launcher = b.group.Launcher()
	}
	args = append(args, "--http-endpoint="+b.HTTP, "-v=2")
	if b.Cluster == nil {
		b.Node = environment.NodeLaunchedWithout(b.T, b.Manifests, launcher, args...)
		return
	}
	b.Use(environment.NodeLaunched(b.T, launcher, args...))
}

// wantAlive checks that the kernel has killed nothing.
func (b *small) wantAlive() {
	b.T.Helper()
	if err := b.Node.Alive(); err != nil {
		b.T.Error(err)
	}
	if b.group == nil {
		return
	}
	if kills, err := b.group.Kills(); kills != 0 || err != nil {
		b.T.Errorf("the kernel has killed %d processes (%v), want none", kills, err)
	}
}

// text returns what an object of that number holds in a generation.
func text(i, generation, size int) string {
	word := fmt.Sprintf("%d of %d, ", generation, i)
	return strings.Repeat(word, size/len(word)+1)[:size]
}

// set makes or changes the objects.
func (b *small) set(generation, size int) {
	b.T.Helper()
	var g errgroup.Group
	g.SetLimit(4)
	for i := range b.objects {
		g.Go(func() error {
			return b.PutConfigMap(b.T.Context(), b.objectOf(i), map[string]string{"text": text(i, generation, size)})
		})
	}
	expect.NoError(b.T, g.Wait())
}

// objectOf names the object of a pod.
func (b *small) objectOf(i int) string { return fmt.Sprintf("large-%d", i%b.objects) }

// flood publishes many pods at once and returns which of them got their volume. Others must have been refused for want of
// memory.
func (b *small) flood(pods []*corev1.Pod) (live []int) {
	b.T.Helper()
	ctx, cancel := context.WithTimeout(b.T.Context(), atLength)
	defer cancel()
	var mu sync.Mutex // Guards live.
	var g errgroup.Group
	g.SetLimit(atOnce)
	for i, pod := range pods {
		g.Go(func() error {
			err := b.TryPublish(ctx, pod)
			switch {
			case err == nil:
				mu.Lock()
				defer mu.Unlock()
				live = append(live, i)
			case status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "--volume-memory"):
				return fmt.Errorf("pod %d: %w, want ResourceExhausted, and what to do about it", i, err)
			}
			return nil
		})
	}
	expect.NoError(b.T, g.Wait())
	return live
}

// floodSome is flood where there is room for some.
func (b *small) floodSome(pods []*corev1.Pod) (live []int) {
	b.T.Helper()
	live = b.flood(pods)
	if len(live) == 0 || len(live) == len(pods) {
		b.T.Fatalf("%d of %d volumes were published, want some", len(live), len(pods))
	}
	return live
}

// podsOf returns pods with a volume each of their object, none equal to another one.
func (b *small) podsOf(n int) []*corev1.Pod {
	b.T.Helper()
	return b.podsWith(n, func(i int) map[string]string { return ownMode(b.objectOf(i))(i) })
}

// podsWith returns pods with a volume of these attributes each, which are unpublished in the end.
func (b *small) podsWith(n int, attributes func(i int) map[string]string) []*corev1.Pod {
	b.T.Helper()
	pods := make([]*corev1.Pod, n)
	for i := range pods {
		pods[i] = b.Pod(fmt.Sprintf("pod-%d", i), attributes(i))
		b.T.Cleanup(func() { b.Unpublish(pods[i]) })
	}
	return pods
}

// holds returns which of the generations up to latest the pod's file holds in full.
func (b *small) holds(pods []*corev1.Pod, i, latest, size int) (int, error) {
	data, err := os.ReadFile(b.Path(pods[i], "text"))
	if err != nil {
		return 0, err
	}
	got := environment.Unmarked(string(data))
	for g := latest; g >= 0; g-- {
		if got == text(i%b.objects, g, size) {
			return g, nil
		}
	}
	return 0, fmt.Errorf("pod %d: the file holds %d bytes of no generation, beginning with %.40q", i, len(got), got)
}

// wantLatest waits until the files of the live pods hold the generation. What they hold meanwhile is whole, too.
func (b *small) wantLatest(pods []*corev1.Pod, live []int, latest int) {
	b.T.Helper()
	for _, i := range live {
		expect.Eventually(b.T, atLength, func() error {
			got, err := b.holds(pods, i, latest, large)
			expect.NoError(b.T, err)
			if got != latest {
				return fmt.Errorf("pod %d holds generation %d, want %d", i, got, latest)
			}
			return nil
		})
	}
}

// wantGenerations changes the objects some times, and waits each time until all live volumes follow.
func (b *small) wantGenerations(pods []*corev1.Pod, live []int) {
	b.T.Helper()
	for generation := 1; generation <= 3; generation++ {
		b.set(generation, large)
		b.wantLatest(pods, live, generation)
	}
}

// TestMemoryRunsOut (fault 29) has far more large volumes published than the driver's container has memory for, and then all
// of their objects changed. Some volumes get room and are kept current; the rest is refused, and gets the room when others
// leave. The driver is never killed for it, also not when it starts again beside the volumes that are there.
func TestMemoryRunsOut(t *testing.T) {
	t.Parallel()
	b := newSmall(t, fixture.NewBare, 60)
	b.set(0, large)
	pods := b.podsOf(b.objects)
	live := b.floodSome(pods)
	for generation := 1; generation <= 3; generation++ {
		b.set(generation, large)
	}
	b.wantLatest(pods, live, 3)
	b.wantAlive()

	b.Kill()
	b.Start()
	b.wantLatest(pods, live, 3)
	b.set(4, large)
	b.wantLatest(pods, live, 4)
	b.wantAlive()

	for _, i := range live {
		b.Unpublish(pods[i])
	}
	refused := pods[:0:0]
	for i, pod := range pods {
		if !slices.Contains(live, i) {
			refused = append(refused, pod)
		}
	}
	if again := b.flood(refused); len(again) == 0 {
		t.Error("nobody got the room of the volumes that are gone")
	}
}

// TestManyVolumesOfOneLargeObject (fault 29): the object is in memory once, and its files as often as there is room. All
// volumes that there are follow it.
func TestManyVolumesOfOneLargeObject(t *testing.T) {
	t.Parallel()
	for name, bare := range bareOrigins() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newSmall(t, bare, 1)
			b.set(0, large)
			pods := b.podsOf(podsOfANode)
			expect.Eventually(t, atLength, func() error { return b.TryPublish(t.Context(), pods[0]) }) // It was read.
			b.wantGenerations(pods, b.floodSome(pods))
		})
	}
}

// TestManyEqualVolumesOfOneLargeObject (fault 29): all of them have room, since their files are in
// memory once. So it is after a restart.
func TestManyEqualVolumesOfOneLargeObject(t *testing.T) {
	t.Parallel()
	b := newSmall(t, fixture.NewBare, 1)
	b.set(0, large)
	pods := b.podsWith(podsOfANode, func(i int) map[string]string { return map[string]string{"configMap": b.objectOf(i)} })
	live := b.flood(pods)
	if len(live) != len(pods) {
		t.Fatalf("%d of %d volumes were published, want all", len(live), len(pods))
	}
	b.wantGenerations(pods, live)
	b.Kill()
	b.Start()
	b.set(4, large)
	b.wantLatest(pods, live, 4)
	if got := b.Number("liveconfig_room_used_bytes"); got > 16<<20 {
		t.Errorf("the volumes take %.0f bytes, want that the files count once", got)
	}
	b.wantAlive()
}

// TestObjectsGrow (fault 29) has objects grow after they were published, until there is no room for all. Those that there is
// no room for stay as they are, as Events on their pods report, and follow when there is room again.
func TestObjectsGrow(t *testing.T) {
	t.Parallel()
	const little = 1000
	b := newSmall(t, fixture.NewBare, 20)
	b.set(0, little)
	pods := b.podsOf(b.objects)
	if live := b.flood(pods); len(live) != len(pods) {
		t.Fatalf("%d of %d small volumes were published", len(live), len(pods))
	}
	b.set(1, large)
	var old, grown []int
	expect.Eventually(t, atLength, func() error {
		old, grown = nil, nil
		for i := range pods {
			if _, err := b.holds(pods, i, 0, little); err == nil {
				old = append(old, i)
				continue
			}
			if _, err := b.holds(pods, i, 1, large); err != nil {
				return err
			}
			grown = append(grown, i)
		}
		if len(old) == 0 || len(grown) == 0 {
			return fmt.Errorf("%d volumes have grown, and %d have not; want some of both", len(grown), len(old))
		}
		for _, i := range old {
			if len(eventsOf(b.Fixture, pods[i], "NoRoom")) == 0 {
				return fmt.Errorf("pod %d, which has not grown, has no Event", i)
			}
		}
		return nil
	})
	for _, i := range grown {
		b.Unpublish(pods[i])
	}
	expect.Eventually(t, atLength, func() error {
		for _, i := range old {
			if _, err := b.holds(pods, i, 1, large); err == nil {
				return nil
			}
		}
		return errors.New("nobody has grown into the room of the volumes that are gone")
	})
}

// TestManySmallFiles (fault 29): what the kernel takes for a file counts, although there is nothing in it.
func TestManySmallFiles(t *testing.T) {
	t.Parallel()
	const volumes, files = 12, 4000
	b := newSmall(t, fixture.NewBare, 0)
	data := make(map[string]string, files)
	for i := range files {
		data[fmt.Sprintf("key-%d", i)] = ""
	}
	_, err := b.ConfigMaps().Create(t.Context(),
		fixture.ConfigMap("many", data), metav1.CreateOptions{})
	expect.NoError(t, err)
	pods := b.podsWith(volumes, ownMode("many"))
	for _, i := range b.floodSome(pods) {
		entries, err := os.ReadDir(b.Path(pods[i], "..data"))
		if err != nil || len(entries) != files {
			t.Errorf("pod %d has %d files (%v), want %d", i, len(entries), err, files)
		}
	}
}
