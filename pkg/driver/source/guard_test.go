package source_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/api/identity"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/budget"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/source"
)

// What one object costs. The tests below hold the package to it by counting, which comes out the
// same on a busy machine. They do not run beside others, since what they count belongs to the
// whole process. A number that has become smaller is to be made smaller here.
const (
	// requestsPerObject is a list and a watch. More would be made by every node for every object
	// after each restart.
	requestsPerObject = 2
	// allocsPerBookmark is what a quiet object makes on the heap in a minute.
	allocsPerBookmark = 12
	// heapPerObject is the most on the heap for an object of 1 KiB, with the part of
	// the server; 5.6 KiB were measured. A KiB more would mean that the object is stored twice, or
	// with unused parts, such as its managed fields, or a buffer.
	heapPerObject = 6 << 10
	// stackPerObject is the most that its goroutine takes; 2 KiB were measured. More would mean
	// that deep calls are made by goroutines that then wait.
	stackPerObject = 3 << 10
	// heapAfterLarge is the most that is left for an object that was large, and more than its
	// content while it is: buffers are gone with their event.
	heapAfterLarge = 16 << 10
)

// guarded is a cache on a wire.
type guarded struct {
	*source.Cache
	*wire

	changes atomic.Int64
}

// onWire runs a test of a cache in a synctest bubble. Nothing runs beside it.
func onWire(t *testing.T, keys int, test func(g *guarded)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		g := &guarded{wire: newWire(t, keys)}
		ctx, stop := context.WithCancel(klog.NewContext(t.Context(), klog.Logger{}))
		client := g.client()
		g.Cache = source.New(source.Config{
			Client:  func(identity.Identity) (rest.Interface, error) { return client, nil },
			Types:   g.Types,
			Allow:   func(context.Context, identity.Identity, api.Ref) error { return nil },
			Denies:  func(context.Context, identity.Identity, api.Ref) (bool, error) { return true, nil },
			Changed: func(source.Key) { g.changes.Add(1) },
			Recheck: recheck,
			Room:    budget.New(1 << 40).Part(func(int64) {}),
		})
		var running sync.WaitGroup
		running.Go(func() { _ = g.Run(ctx) })
		test(g)
		stop()
		running.Wait()
	})
}

// nameOf is that of an object by number.
func nameOf(i int) string { return fmt.Sprintf("object-%d", i) }

// use acquires the objects from one number up to another, and waits until they are watched.
func (g *guarded) use(from, to int) {
	for i := from; i < to; i++ {
		key := byDriver(api.Ref{Kind: api.ConfigMap, Namespace: web.Namespace, Name: nameOf(i)})
		if _, err := g.Acquire(key); err != nil {
			g.T.Fatal(err)
		}
	}
	synctest.Wait()
	if got := g.Watches(); got != to || len(g.streams) != to {
		g.T.Fatalf("%d objects have %d watches, %d of them open", to, got, len(g.streams))
	}
}

// TestGuardRequests: acquiring an object costs two requests, another user of it none, a change
// none, and an hour's half of quiet none: bookmarks are all that is heard.
func TestGuardRequests(t *testing.T) {
	const objects, quiet = 10, driverWatchTime - 2*time.Minute
	onWire(t, 1, func(g *guarded) {
		steps := []struct {
			what string
			do   func()
			want int
		}{
			{"to read objects that nobody else does", func() { g.use(0, objects) }, objects * requestsPerObject},
			{"to read what is watched", func() { g.use(0, objects) }, 0},
			{"for changes", func() {
				for i := range objects {
					g.send(nameOf(i), g.change(nameOf(i)))
				}
			}, 0},
			{"in quiet times", func() {
				for range quiet / time.Minute {
					pass(time.Minute)
					for i := range objects {
						g.send(nameOf(i), g.bookmark())
					}
				}
			}, 0},
		}
		for _, step := range steps {
			before := g.count()
			step.do()
			if got := g.count() - before; got != step.want {
				t.Errorf("%d requests %s, want %d", got, step.what, step.want)
			}
		}
		if got, want := g.changes.Load(), int64(2*objects); got != want {
			t.Errorf("%d changes were reported, want %d: the measure shows nothing", got, want)
		}
	})
}

// driverWatchTime is the least that a quiet watch of the driver's stays open.
const driverWatchTime = 30 * time.Minute

// TestGuardAllocations counts what a change allocates on the heap, from its bytes until it is
// reported, and what a bookmark does. More would mean that something new is decoded, copied or
// logged for each change of each object.
func TestGuardAllocations(t *testing.T) {
	for keys, want := range map[int]uint64{1: 31, 10: 63} {
		onWire(t, keys, func(g *guarded) {
			g.use(0, 1)
			change := leastAllocations(g, func() []byte { return g.change(nameOf(0)) })
			bookmark := leastAllocations(g, g.bookmark)
			t.Attr(fmt.Sprintf("guard/allocations-of-a-change-with-%d-keys", keys), fmt.Sprint(change))
			t.Attr("guard/allocations-of-a-bookmark", fmt.Sprint(bookmark))
			wantAbout(t, fmt.Sprintf("allocations of a change of %d keys", keys), change, want)
			wantAbout(t, "allocations of a bookmark", bookmark, allocsPerBookmark)
		})
	}
}

// wantAbout allows a little more, since the compiler influences it, and half: less would mean
// that nothing was measured.
func wantAbout(t *testing.T, what string, got, want uint64) {
	t.Helper()
	if most := want + want/16; got > most || got < want/2 {
		t.Errorf("%s: %d, want %d, and %d at most", what, got, want, most)
	}
}

// leastAllocations returns how many objects on the heap an event makes: the least of many times,
// because pools lose what they hold now and then, with the race detector on purpose.
func leastAllocations(g *guarded, event func() []byte) uint64 {
	least := ^uint64(0)
	for range 50 {
		next := event()
		before := statistics().Mallocs
		g.send(nameOf(0), next)
		least = min(least, statistics().Mallocs-before)
	}
	return least
}

func statistics() runtime.MemStats {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m
}

// TestGuardMemory measures what objects of 1 KiB take. The benchmark compares it with a reflector.
func TestGuardMemory(t *testing.T) {
	const few, many = 10, 510
	var ours memory
	onWire(t, 1, func(g *guarded) { g.grown(few, many) }) // This makes what is made only once.
	for range 10 {
		onWire(t, 1, func(g *guarded) { ours = g.grown(few, many) })
		if ours.heap <= heapPerObject && ours.stack <= stackPerObject {
			break // Allocations of other goroutines do not repeat.
		}
	}
	t.Attr("guard/heap-per-object", fmt.Sprint(ours.heap))
	t.Attr("guard/stack-per-object", fmt.Sprint(ours.stack))
	if ours.heap > heapPerObject || ours.heap < sizeOfObject {
		t.Errorf("an object of 1 KiB takes %d bytes of the heap, want at most %d, and more than it has", ours.heap, heapPerObject)
	}
	if ours.stack > stackPerObject {
		t.Errorf("an object takes %d bytes of stacks, want at most %d", ours.stack, stackPerObject)
	}
}

// TestGuardMemoryAfterALargeEvent: an object that was large, and is not any more, takes what
// others do.
func TestGuardMemoryAfterALargeEvent(t *testing.T) {
	onWire(t, 1, func(g *guarded) {
		g.use(0, 1)
		g.send(nameOf(0), g.change(nameOf(0)))
		before := held()
		large := g.object(nameOf(0))
		large.Data["large"] = strings.Repeat("x", 1<<20)
		g.send(nameOf(0), g.Event(watch.Event{Type: watch.Modified, Object: large}))
		if grown := held().heap - before.heap; grown < 1<<19 || grown > 1<<20+heapAfterLarge {
			t.Errorf("an object of 1 MiB takes %d bytes more, want little more than it has", grown)
		}
		g.send(nameOf(0), g.change(nameOf(0)))
		grown := held().heap - before.heap
		t.Attr("guard/heap-after-a-large-event", fmt.Sprint(grown))
		if grown > heapAfterLarge {
			t.Errorf("%d bytes are left of an object that was large, want at most %d", grown, heapAfterLarge)
		}
	})
}

// memory is bytes in use.
type memory struct{ heap, stack int }

func held() memory {
	for range 3 { // Pools keep what they hold for two collections.
		runtime.GC()
	}
	m := statistics()
	return memory{heap: int(m.HeapAlloc), stack: int(m.StackInuse)}
}

// grown returns what each object takes between a few and many, in quiet times: since it was read
// there was a bookmark, as there is one in each minute.
func (g *guarded) grown(few, many int) memory {
	quiet := func(from, to int) memory {
		g.use(from, to)
		held()
		for i := range to {
			g.send(nameOf(i), g.bookmark())
		}
		return held()
	}
	before := quiet(0, few)
	after := quiet(few, many)
	return memory{heap: (after.heap - before.heap) / (many - few), stack: (after.stack - before.stack) / (many - few)}
}
