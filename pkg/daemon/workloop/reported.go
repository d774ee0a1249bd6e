package workloop

import "sync"

// Reported remembers the last text that was reported about each thing, so that it is reported once.
// Make it with [NewReported]. It is safe for concurrent use.
type Reported[K comparable] struct {
	mu   sync.Mutex // Guards last.
	last map[K]string
}

// NewReported returns a Reported about nothing.
func NewReported[K comparable]() *Reported[K] { return &Reported[K]{last: map[K]string{}} }

// Replace reports whether a text is another than the last about something, and remembers it. The
// empty text, which ends what was reported, is never new.
func (r *Reported[K]) Replace(about K, text string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if text == "" {
		delete(r.last, about)
		return false
	}
	before := r.last[about]
	r.last[about] = text
	return before != text
}

// Forget has the next text about something be new.
func (r *Reported[K]) Forget(about K) { r.Replace(about, "") }
