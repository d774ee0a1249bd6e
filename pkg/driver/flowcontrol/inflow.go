// Package flowcontrol limits how many requests to a server wait for an answer at a time, and how many large answers are read at
// a time. It sends the most urgent requests first. Answers that are received and not yet used take memory, and many
// requests at once make more connections than they need.
//
// It does not know what the answers are about.
package flowcontrol

import (
	"context"
	"encoding/binary"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
)

const (
	// large is how much of an answer is read without a place: most never need one.
	large = 16 << 10
	// stall is how long one that has a place may bring nothing before it loses it to others.
	stall = 250 * time.Millisecond
	// turn is how long one may have a place at all, unless it is over by then: then others have theirs first. It takes
	// the largest answer far less, unless it trickles.
	turn = 5 * time.Second
	// receiveBuffer is how much of one answer the connection takes in that nobody has read yet.
	receiveBuffer = 128 << 10
)

// Gate admits requests, and readers of answers. Who waits for the server, or for an event, has no place among the readers:
// one is taken when something large comes.
type Gate struct {
	requests line
	places   chan struct{} // Holds one element for each place of a reader that is taken.
}

// New returns a gate for so many large answers at a time.
func New(places int) *Gate { return &Gate{places: make(chan struct{}, places)} }

// Transport returns a transport whose requests and answers pass the gate. It must be the only user of base.
func (g *Gate) Transport(base http.RoundTripper) http.RoundTripper {
	limitReceiving(base)
	return &transport{gate: g, base: base}
}

// limitReceiving sets the buffers of what a client library has made, as long as no connection is open. The default of 4 MiB
// for each answer would hold everything that waits for a place.
func limitReceiving(base http.RoundTripper) {
	for {
		switch t := base.(type) {
		case *http.Transport:
			t.HTTP2 = &http.HTTP2Config{MaxReceiveBufferPerStream: receiveBuffer}
			return
		case utilnet.RoundTripperWrapper:
			base = t.WrappedRoundTripper()
		default:
			return
		}
	}
}

type transport struct {
	gate *Gate
	base http.RoundTripper
}

var _ utilnet.RoundTripperWrapper = (*transport)(nil)

// RoundTrip is [http.RoundTripper].
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := t.send(r)
	if err != nil {
		return nil, err
	}
	h, _ := r.Context().Value(holdKey{}).(*hold)
	isStream := isFramed(response)
	if isStream {
		lighten(response)
	}
	response.Body = &body{ctx: r.Context(), gate: t.gate, hold: h, base: response.Body, frames: frames{is: isStream}}
	return response, nil
}

// send has the request wait for its turn, and returns when there is an answer, of which nothing but its headers may have
// come. So a watch that is open takes no place.
func (t *transport) send(r *http.Request) (*http.Response, error) {
	place, err := t.gate.requests.wait(r.Context())
	if err != nil {
		if r.Body != nil {
			_ = r.Body.Close() // As transports have to.
		}
		return nil, err
	}
	response, err := t.base.RoundTrip(r)
	place.note(r.Context(), response, err)
	place.leave()
	return response, err
}

// lighten takes from a stream's answer what nobody reads. A transport holds the answer for as long as the stream is open,
// with its headers and the request, and that with its own and what it was cloned from: more than many an object has.
func lighten(r *http.Response) {
	kept := http.Header{}
	for _, name := range []string{contentType, "Warning"} {
		if values := r.Header[name]; len(values) > 0 {
			kept[name] = slices.Clone(values)
		}
	}
	r.Header, r.Request = kept, nil
}

// WrappedRoundTripper is [utilnet.RoundTripperWrapper].
func (t *transport) WrappedRoundTripper() http.RoundTripper { return t.base }

const contentType = "Content-Type"

// isFramed reports whether the answer is a stream of events, each behind its length.
func isFramed(r *http.Response) bool {
	kind, parameters, err := mime.ParseMediaType(r.Header.Get(contentType))
	return err == nil && strings.HasSuffix(kind, "protobuf") && parameters["stream"] == "watch"
}

// body is the rest of an answer. It is read by one goroutine, and perhaps closed by another.
type body struct {
	ctx    context.Context
	gate   *Gate
	hold   *hold // Takes the place over at the end; nil for nobody.
	base   io.ReadCloser
	frames frames
	over   bool // The end was read.

	mu   sync.Mutex  // Guards the fields below.
	held bool        // Whether it has a place.
	turn *time.Timer // Takes the place back; nil before the first one.
}

// Read is [io.Reader]. A place that was taken is kept until the next Read after the end of what it was taken for: by then
// the reader has made something of it.
func (b *body) Read(p []byte) (int, error) {
	if b.frames.isLarge() && !b.over {
		return b.readLarge(p)
	}
	b.giveBack()
	return b.read(p)
}

// readLarge reads with a place, unless that is taken back. It is apart from Read so that who waits there, which is nearly
// everybody nearly all the time, needs little stack.
func (b *body) readLarge(p []byte) (int, error) {
	if err := b.take(); err != nil {
		return 0, err
	}
	timer := time.AfterFunc(stall, b.giveBack)
	defer timer.Stop()
	return b.read(p)
}

func (b *body) read(p []byte) (int, error) {
	n, err := b.base.Read(p)
	b.frames.pass(p[:n])
	if err != nil {
		b.over = true // Client libraries read on, to see the end once more.
		b.end()
	}
	return n, err
}

// Close is [io.Closer].
func (b *body) Close() error {
	b.end()
	return b.base.Close()
}

// end has the place given back when who reads is done with the answer, or now.
func (b *body) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.turn != nil {
		b.turn.Stop()
	}
	if b.held && b.hold.keep(b.gate) {
		b.held = false
	}
	b.giveBackLocked()
}

// take waits for a place unless there is one.
func (b *body) take() error {
	b.mu.Lock()
	held := b.held
	b.mu.Unlock()
	if held {
		return nil
	}
	select {
	case b.gate.places <- struct{}{}:
	case <-b.ctx.Done():
		return context.Cause(b.ctx)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.held = true
	if b.turn != nil {
		b.turn.Stop()
	}
	b.turn = time.AfterFunc(turn, b.giveBack)
	return nil
}

func (b *body) giveBack() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.giveBackLocked()
}

func (b *body) giveBackLocked() {
	if b.held {
		<-b.gate.places
		b.held = false
	}
}

// hold keeps places beyond the end of an answer.
type hold struct {
	mu    sync.Mutex // Guards the fields below.
	over  bool
	gates []*Gate // Of each place.
}

type holdKey struct{}

// Hold returns a context for requests whose answers keep their places until done is called, or ctx ends: what was read is
// still to be decoded then. Done may be called more than once.
func Hold(ctx context.Context) (holding context.Context, done func()) {
	h := &hold{}
	stop := context.AfterFunc(ctx, h.release)
	return context.WithValue(ctx, holdKey{}, h), func() {
		stop()
		h.release()
	}
}

// keep takes a place over, if anybody holds.
func (h *hold) keep(g *Gate) bool {
	if h == nil {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.over {
		h.gates = append(h.gates, g)
	}
	return !h.over
}

func (h *hold) release() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, g := range h.gates {
		<-g.places
	}
	h.over, h.gates = true, nil
}

// frames follows what is read: events that each come behind four bytes with their length or, unless is is set, one answer
// of a length that is not known.
type frames struct {
	is     bool
	header [4]byte // What has been read of the length of the next event.
	begun  int     // How much that is.
	length int64   // Of the event that is being read.
	rest   int64   // What has not been read of it.
	read   int64   // Of the only answer.
}

func (f *frames) isLarge() bool {
	if f.is {
		return f.rest > 0 && f.length > large
	}
	return f.read > large
}

func (f *frames) pass(p []byte) {
	f.read += int64(len(p))
	for f.is && len(p) > 0 {
		if f.rest > 0 {
			n := min(f.rest, int64(len(p)))
			f.rest -= n
			p = p[n:]
			continue
		}
		n := copy(f.header[f.begun:], p)
		p = p[n:]
		if f.begun += n; f.begun == len(f.header) {
			f.length = int64(binary.BigEndian.Uint32(f.header[:]))
			f.rest, f.begun = f.length, 0
		}
	}
}
