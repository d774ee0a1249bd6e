package flowcontrol_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/liveconfig-csi/liveconfig/pkg/driver/flowcontrol"
)

const (
	listType  = "application/vnd.kubernetes.protobuf"
	watchType = "application/vnd.kubernetes.protobuf;stream=watch"
	big       = 100 << 10
)

// server answers each request with the next body.
type server struct {
	kind   string
	bodies []io.ReadCloser
}

func (s *server) RoundTrip(*http.Request) (*http.Response, error) {
	next := s.bodies[0]
	s.bodies = s.bodies[1:]
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {s.kind}}, Body: next}, nil
}

// open returns the body of the next answer, as it comes through the gate.
func open(ctx context.Context, t *testing.T, gate *flowcontrol.Gate, kind string, body io.ReadCloser) io.ReadCloser {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := gate.Transport(&server{kind: kind, bodies: []io.ReadCloser{body}}).RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	return response.Body
}

// reader reads a body to its end.
type reader struct {
	done chan struct{}
	n    int64
	err  error
}

func read(body io.Reader) *reader {
	r := &reader{done: make(chan struct{})}
	go func() {
		r.n, r.err = io.Copy(io.Discard, body)
		close(r.done)
	}()
	return r
}

func (r *reader) isDone() bool {
	synctest.Wait()
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

func of(size int) io.ReadCloser { return io.NopCloser(strings.NewReader(strings.Repeat("x", size))) }

func event(size int) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(size)), bytes.Repeat([]byte("e"), size)...)
}

// next reads an event: its length, then the rest.
func next(t *testing.T, events io.Reader, size int) {
	t.Helper()
	for _, n := range []int{4, size} {
		if n > 4 {
			flowcontrol.Expect(events, int64(n))
		}
		if _, err := io.ReadFull(events, make([]byte, n)); err != nil {
			t.Fatal(err)
		}
	}
}

func bubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, test)
}

// TestLargeAnswersTakeTurns: the second one waits until the first one is decoded; small ones do
// not.
func TestLargeAnswersTakeTurns(t *testing.T) {
	bubble(t, func(t *testing.T) { //nolint:thelper // It is the test.
		gate := flowcontrol.New(1)
		ctx, done := flowcontrol.Lease(t.Context())
		first := read(open(ctx, t, gate, listType, of(big)))
		if !first.isDone() || first.n != big {
			t.Fatalf("the first answer: %d bytes, want all", first.n)
		}
		second := read(open(t.Context(), t, gate, listType, of(big)))
		small := read(open(t.Context(), t, gate, listType, of(1000)))
		if !small.isDone() || second.isDone() {
			t.Error("the small answer waits, or the large one does not")
		}
		done()
		done()
		if !second.isDone() || second.n != big || second.err != nil {
			t.Errorf("the second answer: %d bytes, %v, want all", second.n, second.err)
		}
		if third := read(open(t.Context(), t, gate, listType, of(big))); !third.isDone() {
			t.Error("the third answer waits, although the second one has ended")
		}
	})
}

// TestReadingOnAfterTheEnd takes no slot: libraries do so while the answer still has one.
func TestReadingOnAfterTheEnd(t *testing.T) {
	bubble(t, func(t *testing.T) { //nolint:thelper // It is the test.
		gate := flowcontrol.New(1)
		ctx, done := flowcontrol.Lease(t.Context())
		defer done()
		body := open(ctx, t, gate, listType, of(big))
		for range 2 {
			if r := read(body); !r.isDone() {
				t.Fatal("reading waits for itself")
			}
		}
	})
}

// TestALeaseEndsWithItsContext, although done is not called.
func TestALeaseEndsWithItsContext(t *testing.T) {
	bubble(t, func(t *testing.T) { //nolint:thelper // It is the test.
		gate := flowcontrol.New(1)
		parent, cancel := context.WithCancel(t.Context())
		ctx, _ := flowcontrol.Lease(parent)
		if first := read(open(ctx, t, gate, listType, of(big))); !first.isDone() {
			t.Fatal("the first answer waits")
		}
		second := read(open(t.Context(), t, gate, listType, of(big)))
		if second.isDone() {
			t.Error("the second answer does not wait")
		}
		cancel()
		if !second.isDone() {
			t.Error("the second answer waits for one that is gone")
		}
	})
}

// TestAStalledAnswer loses its slot to others, and has to wait for one again.
func TestAStalledAnswer(t *testing.T) {
	bubble(t, func(t *testing.T) { //nolint:thelper // It is the test.
		gate := flowcontrol.New(1)
		from, to := io.Pipe()
		stalled := read(open(t.Context(), t, gate, listType, from))
		go func() { _, _ = to.Write(make([]byte, big)) }()
		synctest.Wait()
		second := read(open(t.Context(), t, gate, listType, of(big)))
		if second.isDone() {
			t.Fatal("the second answer does not wait at all")
		}
		<-time.After(time.Second)
		if !second.isDone() {
			t.Error("the second answer waits for one that delivers nothing")
		}
		go func() {
			_, _ = to.Write(make([]byte, big))
			_ = to.Close()
		}()
		if !stalled.isDone() || stalled.n != 2*big {
			t.Errorf("the stalled answer: %d bytes, want all", stalled.n)
		}
	})
}

// TestATricklingAnswer never stalls, and loses its slot all the same. Then it continues.
func TestATricklingAnswer(t *testing.T) {
	t.Parallel()
	for name, kind := range map[string]string{"a list": listType, "an event": watchType} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) { //nolint:thelper // It is the test.
				gate := flowcontrol.New(1)
				from, to := io.Pipe()
				body := open(t.Context(), t, gate, kind, from)
				flowcontrol.Expect(body, big) // It means nothing to a list.
				trickling := read(body)
				stop := make(chan struct{})
				go func() {
					defer to.Close()
					_, _ = to.Write(make([]byte, big/2))
					for {
						select {
						case <-stop:
							return
						case <-time.After(200 * time.Millisecond):
							_, _ = to.Write([]byte("e"))
						}
					}
				}()
				synctest.Wait()
				for range 3 {
					other := read(open(t.Context(), t, gate, listType, of(big)))
					if other.isDone() {
						t.Error("the other answer does not wait at all")
					}
					<-time.After(6 * time.Second)
					if !other.isDone() {
						t.Error("the other answer waits for one that trickles")
					}
				}
				close(stop)
				<-trickling.done
				if trickling.err != nil || trickling.n < big/2+3*5*5 {
					t.Errorf("the answer that trickles: %d bytes, %v, want all", trickling.n, trickling.err)
				}
			})
		})
	}
}

// TestEventsTakeTurns: a watch has a slot from the beginning of a large event until its reader
// asks for the next one, and none while nothing arrives.
func TestEventsTakeTurns(t *testing.T) {
	bubble(t, func(t *testing.T) { //nolint:thelper // It is the test.
		gate := flowcontrol.New(1)
		from, to := io.Pipe()
		events := open(t.Context(), t, gate, watchType, from)
		go func() { _, _ = to.Write(append(event(10), event(big)...)) }()
		next(t, events, 10)
		next(t, events, big)
		list := read(open(t.Context(), t, gate, listType, of(big)))
		if list.isDone() {
			t.Error("the list does not wait for the event")
		}
		rest := read(events)
		if !list.isDone() || rest.isDone() {
			t.Error("the list waits, although the watch asks for the next event")
		}
		_ = to.Close()
		<-rest.done
	})
}

// TestAReaderCanGiveUp with the context of the request, and Close returns a slot.
func TestAReaderCanGiveUp(t *testing.T) {
	bubble(t, func(t *testing.T) { //nolint:thelper // It is the test.
		gate := flowcontrol.New(1)
		from, to := io.Pipe()
		defer to.Close()
		first := open(t.Context(), t, gate, watchType, from)
		go func() { _, _ = to.Write(event(big)) }()
		next(t, first, big)
		ctx, cancel := context.WithCancel(t.Context())
		second := read(open(ctx, t, gate, listType, of(big)))
		if second.isDone() {
			t.Fatal("the second answer does not wait")
		}
		cancel()
		if !second.isDone() || second.err == nil {
			t.Errorf("error = %v, want that of the context", second.err)
		}
		if err := first.Close(); err != nil {
			t.Error(err)
		}
		if third := read(open(t.Context(), t, gate, listType, of(big))); !third.isDone() {
			t.Error("the third answer waits for a body that is closed")
		}
	})
}

// answered answers each request with the response.
type answered struct{ response *http.Response }

func (a answered) RoundTrip(r *http.Request) (*http.Response, error) {
	a.response.Request = r
	return a.response, nil
}

// TestAStreamStoresLittleOfItsAnswer, which the transport stores while it is open: what the client
// library reads. Other answers are soon gone, and stay as they are.
func TestAStreamStoresLittleOfItsAnswer(t *testing.T) {
	t.Parallel()
	for kind, isStream := range map[string]bool{watchType: true, listType: false} {
		all := http.Header{"Content-Type": {kind}, "Warning": {"299 - old"}, "Audit-Id": {"some"}, "Date": {"today"}}
		want := all.Clone()
		if isStream {
			want = http.Header{"Content-Type": {kind}, "Warning": {"299 - old"}}
		}
		answer := &http.Response{StatusCode: http.StatusOK, Header: all, Body: of(1)}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost", nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := flowcontrol.New(1).Transport(answered{answer}).RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		if diff := cmp.Diff(want, answer.Header); diff != "" || response != answer {
			t.Errorf("headers of %s (-want +got):\n%s", kind, diff)
		}
		if got := answer.Request == nil; got != isStream {
			t.Errorf("the request of %s is released: %t, want %t", kind, got, isStream)
		}
	}
}

// TestReceivingIsLimited where the library's transport can be found behind its wrappers.
func TestReceivingIsLimited(t *testing.T) {
	t.Parallel()
	inner := &http.Transport{}
	gate := flowcontrol.New(1)
	gate.Transport(gate.Transport(inner))
	if inner.HTTP2 == nil || inner.HTTP2.MaxReceiveBufferPerStream > 1<<20 {
		t.Errorf("HTTP2 = %+v, want a small receive buffer", inner.HTTP2)
	}
}
