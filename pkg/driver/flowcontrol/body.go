package flowcontrol

import (
	"context"
	"io"
	"sync"
	"time"
)

const (
	// large is how much of an answer is read without a slot: most answers never need one.
	large = 16 << 10
	// stallTimeout is how long an answer may deliver nothing before it loses its slot.
	stallTimeout = 250 * time.Millisecond
	// slotTimeout is how long an answer may have a slot at all. The largest answer needs far less,
	// unless it trickles.
	slotTimeout = 5 * time.Second
)

// body is the rest of an answer. One goroutine reads it, and another may close it.
type body struct {
	ctx      context.Context
	gate     *Gate
	base     io.ReadCloser
	isFramed bool // It is a stream; [Expect] announces its events.
	isOver   bool // The end was read.

	received int64 // Of an answer that is not a stream.
	event    int64 // The length of the event that is being read.
	rest     int64 // The part of it that has not been read.

	mu       sync.Mutex // Guards the fields below.
	hasSlot  bool
	deadline *time.Timer // Takes the slot back.
}

// Expect announces that the next n bytes of a stream are one event. If it is large, it is read
// with a slot. Bodies of other transports are ignored.
func Expect(stream io.Reader, n int64) {
	if b, ok := stream.(*body); ok {
		b.event, b.rest = n, n
	}
}

// Read implements [io.Reader]. The reader of a stream has its slot until the first Read after a
// large event: by then it has decoded that. The reader of another large answer decodes it after the
// end, and has its slot until the context of its request ends.
func (b *body) Read(p []byte) (int, error) {
	if b.isLarge() && !b.isOver {
		return b.readLarge(p)
	}
	if b.isFramed {
		b.returnSlot()
	}
	return b.read(p)
}

func (b *body) isLarge() bool {
	if b.isFramed {
		return b.rest > 0 && b.event > large
	}
	return b.received > large
}

// readLarge reads with a slot, unless that is taken back. It is separate from Read so that a reader
// that waits there, as nearly all do nearly always, needs little stack.
func (b *body) readLarge(p []byte) (int, error) {
	if err := b.takeSlot(); err != nil {
		return 0, err
	}
	timer := time.AfterFunc(stallTimeout, b.returnSlot)
	defer timer.Stop()
	return b.read(p)
}

func (b *body) read(p []byte) (int, error) {
	n, err := b.base.Read(p)
	b.received += int64(n)
	b.rest = max(b.rest-int64(n), 0)
	if err != nil {
		b.isOver = true // Client libraries read once more after the end.
		b.endEvents()
	}
	return n, err
}

// Close implements [io.Closer].
func (b *body) Close() error {
	b.endEvents()
	return b.base.Close()
}

// endEvents ends a stream; nothing of it is decoded any more.
func (b *body) endEvents() {
	if b.isFramed {
		b.returnSlot()
	}
}

// takeSlot waits for a slot unless the body has one.
func (b *body) takeSlot() error {
	b.mu.Lock()
	hasSlot := b.hasSlot
	b.mu.Unlock()
	if hasSlot {
		return nil
	}
	select {
	case b.gate.decoding <- struct{}{}:
	case <-b.ctx.Done():
		return context.Cause(b.ctx)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.hasSlot, b.deadline = true, time.AfterFunc(slotTimeout, b.returnSlot)
	if !b.isFramed {
		context.AfterFunc(b.ctx, b.returnSlot)
	}
	return nil
}

func (b *body) returnSlot() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.hasSlot {
		b.deadline.Stop()
		<-b.gate.decoding
		b.hasSlot = false
	}
}
