// Package flowcontrol limits how many requests to a server wait for an answer at the same time,
// and how many large answers and events are read and decoded at the same time. Answers that were
// received and not decoded yet take memory, and many requests at once make more connections than
// they need. Requests of new pods have their own slots beside routine work, and tenants take turns.
//
// The size of an event is announced by its reader, which parses the stream anyway: see [Expect].
// The size of another answer is counted while it is read.
//
// It does not know the content of the answers.
package flowcontrol

import (
	"mime"
	"net/http"
	"slices"
	"strings"

	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// receiveBuffer is how much of one answer a connection receives before somebody reads it.
const receiveBuffer = 128 << 10

// Gate admits requests, and readers of large answers. A reader that waits for the server, or for an
// event, has no slot: it takes one when something large arrives.
type Gate struct {
	requests queue
	decoding chan struct{} // Has one element for each slot of a reader that is taken.
}

// New returns a gate for that many large answers at the same time.
func New(largeAnswers int) *Gate { return &Gate{decoding: make(chan struct{}, largeAnswers)} }

// Transport returns a transport whose requests and answers pass the gate. It must be the only
// user of base.
func (g *Gate) Transport(base http.RoundTripper) http.RoundTripper {
	limitReceiving(base)
	return &transport{gate: g, base: base}
}

// limitReceiving sets the buffers of the library's transport, before a connection is open. The
// default of 4 MiB for each answer would store everything that waits for a slot.
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

// RoundTrip implements [http.RoundTripper].
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := t.send(r)
	if err != nil {
		return nil, err
	}
	b := &body{ctx: r.Context(), gate: t.gate, base: response.Body}
	if b.isFramed = isFramed(response); b.isFramed {
		lighten(response)
	}
	response.Body = b
	return response, nil
}

// send lets the request wait for its slot, and returns when the headers of the answer have
// arrived. So an open watch takes no slot.
func (t *transport) send(r *http.Request) (*http.Response, error) {
	slot, err := t.gate.requests.wait(r.Context())
	if err != nil {
		if r.Body != nil {
			_ = r.Body.Close() // Transports must close it.
		}
		return nil, err
	}
	response, err := t.base.RoundTrip(r)
	slot.note(r.Context(), response, err)
	slot.leave()
	return response, err
}

// lighten removes what nobody reads from the answer that starts a stream. While the stream is
// open, the library stores that answer, its request, and the request's original: more than many
// an object has.
func lighten(r *http.Response) {
	headers := http.Header{}
	for _, name := range []string{contentType, "Warning"} {
		if values := r.Header[name]; len(values) > 0 {
			headers[name] = slices.Clone(values)
		}
	}
	r.Header, r.Request = headers, nil
}

// WrappedRoundTripper implements [utilnet.RoundTripperWrapper].
func (t *transport) WrappedRoundTripper() http.RoundTripper { return t.base }

const contentType = "Content-Type"

// isFramed reports whether the answer is a stream of events with their lengths.
func isFramed(r *http.Response) bool {
	kind, parameters, err := mime.ParseMediaType(r.Header.Get(contentType))
	return err == nil && strings.HasSuffix(kind, "protobuf") && parameters["stream"] == "watch"
}
