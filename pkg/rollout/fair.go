package rollout

import (
	"time"

	"k8s.io/client-go/util/workqueue"
)

// fair is the storage of a work queue in which each namespace has a line of its own. The lines take turns, so what waits in
// one namespace delays no other.
type fair[T comparable] struct {
	namespaceOf func(T) string
	lines       map[string][]T
	// turns are the namespaces whose lines are not empty, the next one first.
	turns []string
	size  int
}

// newQueue returns a work queue that is fair to namespaces.
func newQueue[T comparable](namespaceOf func(T) string) workqueue.TypedRateLimitingInterface[T] {
	storage := &fair[T]{namespaceOf: namespaceOf, lines: map[string][]T{}}
	return workqueue.NewTypedRateLimitingQueueWithConfig(backoff[T](), workqueue.TypedRateLimitingQueueConfig[T]{
		DelayingQueue: workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[T]{
			Queue: workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[T]{Queue: storage}),
		}),
	})
}

func backoff[T comparable]() workqueue.TypedRateLimiter[T] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[T](50*time.Millisecond, time.Minute)
}

// Touch is called for an item that waits already: it keeps its place.
func (q *fair[T]) Touch(T) {}

// Push puts an item at the end of its namespace's line.
func (q *fair[T]) Push(item T) {
	namespace := q.namespaceOf(item)
	if len(q.lines[namespace]) == 0 {
		q.turns = append(q.turns, namespace)
	}
	q.lines[namespace] = append(q.lines[namespace], item)
	q.size++
}

// Len returns how many items wait.
func (q *fair[T]) Len() int { return q.size }

// Pop returns the first of the line whose turn it is. There must be one.
func (q *fair[T]) Pop() T {
	namespace := q.turns[0]
	line := q.lines[namespace]
	item := line[0]
	line[0] = *new(T) // The array stays as long as others wait in it.
	q.turns, q.lines[namespace] = q.turns[1:], line[1:]
	if len(line) > 1 {
		q.turns = append(q.turns, namespace)
	} else {
		delete(q.lines, namespace)
	}
	q.size--
	return item
}
