package fairqueue

import "k8s.io/client-go/util/workqueue"

// Metrics decide what is counted of a work queue. The zero Metrics count nothing.
type Metrics struct {
	// Name is the queue's.
	Name     string
	Provider workqueue.MetricsProvider
}

// NewWorkQueue returns a work queue in which each tenant has its own line. tenantOf returns the
// tenant of an item; it must not block. The caller shuts the queue down.
func NewWorkQueue[T comparable](
	tenantOf func(T) string, limit workqueue.TypedRateLimiter[T], m Metrics,
) workqueue.TypedRateLimitingInterface[T] {
	return workqueue.NewTypedRateLimitingQueueWithConfig(limit, workqueue.TypedRateLimitingQueueConfig[T]{
		DelayingQueue: workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[T]{
			Name: m.Name, MetricsProvider: m.Provider,
			Queue: workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[T]{
				Name: m.Name, MetricsProvider: m.Provider, Queue: &order[T]{tenantOf: tenantOf},
			}),
		}),
	})
}

// order is the order of a work queue, which guards it by its lock.
type order[T comparable] struct {
	tenantOf func(T) string
	lines    lines[T]
}

// Touch does nothing: an item that is added again keeps its place.
func (o *order[T]) Touch(T) {}

// Push puts an item at the end of its tenant's line.
func (o *order[T]) Push(item T) { o.lines.push(o.tenantOf(item), item) }

// Len returns how many items wait.
func (o *order[T]) Len() int { return o.lines.count }

// Pop takes the first item of the tenant whose turn it is. There must be one.
func (o *order[T]) Pop() T {
	item, _ := o.lines.pop()
	return item
}
