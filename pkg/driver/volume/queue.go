package volume

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/util/workqueue"

	"github.com/liveconfig-csi/liveconfig/pkg/daemon/fairqueue"
)

// workers is how many volumes are synced at a time. A sync is mostly system calls.
const workers = 4

// After firstRetry a sync that the node could not do is tried again; the time doubles up to
// longestWait. A sync without room is tried again when there is room, and in any case after
// noRoomRetry.
const (
	firstRetry  = 100 * time.Millisecond
	longestWait = 2 * time.Minute
	noRoomRetry = time.Minute
)

// syncQueue is the queue of volumes to sync. Each namespace has its own turn.
type syncQueue struct {
	queue  workqueue.TypedRateLimitingInterface[queued]
	stalls *stallDetector
}

// queued names a volume in the queue.
type queued struct{ namespace, volumeID string }

func newSyncQueue(stalls *stallDetector) *syncQueue {
	return &syncQueue{
		queue: fairqueue.NewWorkQueue(func(q queued) string { return q.namespace },
			workqueue.NewTypedItemExponentialFailureRateLimiter[queued](firstRetry, longestWait)),
		stalls: stalls,
	}
}

func itemOf(v *volume) queued {
	return queued{namespace: v.record.Pod.Namespace, volumeID: v.record.VolumeID}
}

// add queues a sync of the volume. It does not block.
func (q *syncQueue) add(v *volume) { q.queue.Add(itemOf(v)) }

// addAt queues a sync of the volume for later.
func (q *syncQueue) addAt(v *volume, at time.Time) { q.queue.AddAfter(itemOf(v), time.Until(at)) }

// run syncs volumes from the queue until ctx ends.
func (q *syncQueue) run(ctx context.Context, sync func(ctx context.Context, volumeID string) error) error {
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

// syncNext syncs one volume. It returns false when the queue has been shut down.
func (q *syncQueue) syncNext(ctx context.Context, sync func(ctx context.Context, volumeID string) error) bool {
	item, closed := q.queue.Get()
	if closed {
		return false
	}
	defer q.queue.Done(item)
	end := q.stalls.beginQueued(item.volumeID)
	err := sync(ctx, item.volumeID)
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
