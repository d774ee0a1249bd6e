package source_test

import (
	"context"
	"io"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
)

// serverWatch is one open watch, and the body of the answer to who asked for it.
type serverWatch struct {
	cluster *cluster
	ref     api.Ref
	// selector is that of a selection, whose ref has no name.
	selector string
	ctx      context.Context
	events   chan []byte
	isDead   bool      // It delivers nothing any more, and stays open.
	until    time.Time // When an API server would end it.

	pending []byte // Of the event that is being read.
}

// Read is [io.Reader]. As with the library's transport, it ends with the context of the request.
func (w *serverWatch) Read(p []byte) (int, error) {
	for len(w.pending) == 0 {
		select {
		case <-w.ctx.Done():
			return 0, w.ctx.Err()
		case event, ok := <-w.events:
			if !ok {
				return 0, io.EOF
			}
			w.pending = event
		}
	}
	n := copy(p, w.pending)
	w.pending = w.pending[n:]
	return n, nil
}

// Close is what the client calls.
func (w *serverWatch) Close() error {
	w.stop()
	w.cluster.mu.Lock()
	defer w.cluster.mu.Unlock()
	w.cluster.unclosed--
	return nil
}

func (w *serverWatch) stop() { w.cluster.end(func(other *serverWatch) bool { return other == w }) }

// passInOrder is [pass] with a server that ends watches when their time is up.
func (b *bench) passInOrder(d time.Duration) {
	for range d / time.Second {
		pass(time.Second)
		b.endOverdue()
	}
}

// hangUp closes every watch, and returns after the next request of each follower: within a second,
// also if there is none.
func (b *bench) hangUp() {
	b.t.Helper()
	waiting := map[api.Ref]bool{}
	b.mu.Lock()
	for w := range b.watches {
		waiting[w.ref] = true
	}
	before := len(b.requests)
	b.mu.Unlock()
	b.cluster.hangUp()
	for over := time.After(time.Second); len(waiting) > 0; {
		select {
		case <-b.asked:
		case <-over:
			return
		}
		b.settle()
		for _, r := range b.all()[before:] {
			delete(waiting, r.ref)
		}
	}
}
