package volume

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/util/workqueue"

	"github.com/liveconfig-csi/liveconfig/pkg/daemon/fairqueue"
)

// workers is how many projections are synced at a time. A sync is mostly system calls.
const workers = 4

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
	defer q.queue.Done(item)
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
