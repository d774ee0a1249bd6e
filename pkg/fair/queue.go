package fair

// Queue is the order of a work queue of client-go (its workqueue.Queue) in which each tenant has a line of its own. The work
// queue guards it by its lock. Make it with [NewQueue].
type Queue[T comparable] struct {
	tenantOf func(T) string
	lines    lines[T]
}

// NewQueue returns an empty queue. tenantOf says whose an item is; it must not block.
func NewQueue[T comparable](tenantOf func(T) string) *Queue[T] { return &Queue[T]{tenantOf: tenantOf} }

// Touch does nothing: an item that is added again keeps its place.
func (q *Queue[T]) Touch(T) {}

// Push puts an item at the end of its tenant's line.
func (q *Queue[T]) Push(item T) { q.lines.push(q.tenantOf(item), item) }

// Len returns how many items wait.
func (q *Queue[T]) Len() int { return q.lines.count }

// Pop takes the first item of the tenant whose turn it is. There must be one.
func (q *Queue[T]) Pop() T {
	item, _ := q.lines.pop()
	return item
}
