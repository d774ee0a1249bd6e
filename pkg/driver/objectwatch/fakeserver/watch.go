package fakeserver

import (
	"context"
	"io"
	"testing/synctest"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
)

// serverWatch is one open watch, and the body of the answer to who asked for it.
type serverWatch struct {
	Server *Server
	ref    api.Ref
	// selected is nil for a watch of one object. The ref of a selection has no name.
	selected selection
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
	w.Server.mu.Lock()
	defer w.Server.mu.Unlock()
	w.Server.unclosed--
	return nil
}

func (w *serverWatch) stop() { w.Server.end(func(other *serverWatch) bool { return other == w }) }

// PassInOrder lets time go by in a synctest bubble, and ends watches when their time is up.
func (c *Server) PassInOrder(d time.Duration) {
	for range d / time.Second {
		time.Sleep(time.Second) //nolint:forbidigo // It takes no time in a bubble.
		c.EndOverdue()
	}
}

// HangUp closes every watch, and returns after the next request of each follower: within a second,
// also if there is none.
func (c *Server) HangUp() {
	c.t.Helper()
	waiting := map[api.Ref]bool{}
	c.mu.Lock()
	for w := range c.watches {
		waiting[w.ref] = true
	}
	before := len(c.requests)
	c.mu.Unlock()
	c.Cut()
	for over := time.After(time.Second); len(waiting) > 0; {
		select {
		case <-c.asked:
		case <-over:
			return
		}
		synctest.Wait()
		for _, r := range c.All()[before:] {
			delete(waiting, r.Ref)
		}
	}
}
