package volume

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/util/workqueue"

	"github.com/liveconfig-csi/liveconfig/pkg/daemon/fairqueue"
)

// workers is how many projections are synced at a time. A sync is mostly system calls.
const (
	workers = 4
	// namespaceWorkers is how many of them one namespace has at most, so that slow syncs of one
	// namespace leave workers to the others.
	namespaceWorkers = 2
)

// After firstSyncRetry a sync that the node could not do is tried again; the time doubles up to
// longestSyncRetry. A sync without room is tried again when there is room, and in any case after
// noRoomRetry.
const (
	firstSyncRetry   = 100 * time.Millisecond
	longestSyncRetry = 2 * time.Minute
	noRoomRetry      = time.Minute
)

// syncQueue is the queue of projections to sync. Each namespace has its own turn.
type syncQueue struct {
	queue  workqueue.TypedRateLimitingInterface[queued]
	stalls *stallDetector
	shares shares
}

// shares limit how many workers a namespace has. The zero value is ready.
type shares struct {
	mu      sync.Mutex // Guards the fields below.
	running map[string]int
	parked  map[string][]queued // Taken from the queue while their namespace had its share; none is empty.
}

// begin reports whether a projection may be synced now. If not, it stays here until [shares.end].
func (s *shares) begin(item queued) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running[item.namespace] == namespaceWorkers {
		s.parked[item.namespace] = append(s.parked[item.namespace], item)
		return false
	}
	if s.running == nil {
		s.running, s.parked = map[string]int{}, map[string][]queued{}
	}
	s.running[item.namespace]++
	return true
}

// end ends a sync, and returns a projection of the namespace that could not begin before; false for
// none.
func (s *shares) end(namespace string) (item queued, isParked bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running[namespace]--; s.running[namespace] == 0 {
		delete(s.running, namespace)
	}
	line := s.parked[namespace]
	switch len(line) {
	case 0:
		return queued{}, false
	case 1:
		delete(s.parked, namespace)
	default:
		s.parked[namespace] = line[1:]
	}
	return line[0], true
}

// queued is a projection in the queue.
type queued struct {
	namespace  string
	projection *projection
}

func newSyncQueue(stalls *stallDetector) *syncQueue {
	return &syncQueue{
		queue: fairqueue.NewWorkQueue(func(q queued) string { return q.namespace },
			workqueue.NewTypedItemExponentialFailureRateLimiter[queued](firstSyncRetry, longestSyncRetry), fairqueue.Metrics{}),
		stalls: stalls,
	}
}

func itemOf(p *projection) queued { return queued{namespace: p.namespace, projection: p} }

// add queues a sync. It does not block.
func (q *syncQueue) add(p *projection) { q.queue.Add(itemOf(p)) }

// addAt queues a sync for later.
func (q *syncQueue) addAt(p *projection, at time.Time) { q.queue.AddAfter(itemOf(p), time.Until(at)) }

// run syncs what is queued until ctx ends.
func (q *syncQueue) run(ctx context.Context, sync func(context.Context, *projection) error) error {
	var g errgroup.Group
	for range workers {
		g.Go(func() error {
			for q.syncNext(ctx, sync) {
			}
			return nil
		})
	}
	<-ctx.Done()
	q.queue.ShutDown()
	return g.Wait()
}

// syncNext syncs one projection. It returns false when the queue has been shut down.
func (q *syncQueue) syncNext(ctx context.Context, sync func(context.Context, *projection) error) bool {
	item, closed := q.queue.Get()
	if closed {
		return false
	}
	if !q.shares.begin(item) {
		return true
	}
	defer q.done(item)
	end := q.stalls.beginQueued(item.projection.id)
	err := sync(ctx, item.projection)
	end()
	switch {
	case !isRetried(err):
		q.queue.Forget(item) // A change of a source ends any other problem, and queues the volume again.
	case isExhausted(err):
		q.queue.AddAfter(item, noRoomRetry)
	default:
		q.queue.AddRateLimited(item)
	}
	return true
}

// done ends the sync of a projection. One of the same namespace that waits for that takes its turn
// again.
func (q *syncQueue) done(item queued) {
	q.queue.Done(item)
	if next, isParked := q.shares.end(item.namespace); isParked {
		q.queue.Add(next)
		q.queue.Done(next)
	}
}

// isRetried reports whether a failed sync is tried again without a change of a source, because the
// node may be able to do it later. A source that has no room is read again when there is room, and
// that is a change of the source.
func isRetried(err error) bool {
	if err == nil {
		return false
	}
	kind := kindOf(err)
	return kind == IO || kind == Exhausted && !isOfSources(err)
}
