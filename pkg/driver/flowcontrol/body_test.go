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

// open returns the body of the next answer, as it comes through the gate.
func (d *desk) open(ctx context.Context, kind string, body io.ReadCloser) io.ReadCloser {
	d.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost", nil)
	if err != nil {
		d.Fatal(err)
	}
	answer := &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {kind}}, Body: body}
	response, err := d.gate.Transport(answered{answer}).RoundTrip(r)
	if err != nil {
		d.Fatal(err)
	}
	return response.Body
}

// list reads a list of that size. The context of its request ends after that.
func (d *desk) list(ctx context.Context, size int) *reader {
	d.Helper()
	ctx, cancel := context.WithCancel(ctx)
	r := read(d.open(ctx, listType, of(size)))
	go func() {
		<-r.done
		cancel()
	}()
	return r
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
func (d *desk) next(events io.Reader, size int) {
	d.Helper()
	for _, n := range []int{4, size} {
		if n > 4 {
			flowcontrol.Expect(events, int64(n))
		}
		if _, err := io.ReadFull(events, make([]byte, n)); err != nil {
			d.Fatal(err)
		}
	}
}

// bubble runs a test on a desk in a synctest bubble, beside other tests.
func bubble(t *testing.T, test func(d *desk)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &desk{T: t, ctx: t.Context(), gate: flowcontrol.New(1), sent: make(chan *sent, 1000)}
		d.through = d.gate.Transport(d)
		test(d)
	})
}

// bubbleCase is bubble for one case of a table.
func bubbleCase(t *testing.T, name string, test func(d *desk)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { bubble(t, test) })
}

// TestLargeAnswersTakeTurns: the second one waits until the first one is decoded; small ones do
// not.
func TestLargeAnswersTakeTurns(t *testing.T) {
	bubble(t, func(d *desk) {
		ctx, done := context.WithCancel(d.ctx)
		first := read(d.open(ctx, listType, of(big)))
		if !first.isDone() || first.n != big {
			d.Fatalf("the first answer: %d bytes, want all", first.n)
		}
		second := d.list(d.ctx, big)
		small := d.list(d.ctx, 1000)
		if !small.isDone() || second.isDone() {
			d.Error("the small answer waits, or the large one does not")
		}
		done()
		if !second.isDone() || second.n != big || second.err != nil {
			d.Errorf("the second answer: %d bytes, %v, want all", second.n, second.err)
		}
		if third := d.list(d.ctx, big); !third.isDone() {
			d.Error("the third answer waits, although the second one has ended")
		}
	})
}

// TestReadingOnAfterTheEnd takes no slot: libraries do so while the answer still has one.
func TestReadingOnAfterTheEnd(t *testing.T) {
	bubble(t, func(d *desk) {
		body := d.open(d.ctx, listType, of(big))
		for range 2 {
			if r := read(body); !r.isDone() {
				d.Fatal("reading waits for itself")
			}
		}
	})
}

// TestAnAnswerWhoseRequestDoesNotEnd loses its slot all the same.
func TestAnAnswerWhoseRequestDoesNotEnd(t *testing.T) {
	bubble(t, func(d *desk) {
		if first := read(d.open(d.ctx, listType, of(big))); !first.isDone() {
			d.Fatal("the first answer waits")
		}
		second := d.list(d.ctx, big)
		if second.isDone() {
			d.Error("the second answer does not wait")
		}
		<-time.After(5 * time.Second)
		if !second.isDone() {
			d.Error("the second answer waits for one that was read")
		}
	})
}

// TestAStalledAnswer loses its slot to others, and has to wait for one again.
func TestAStalledAnswer(t *testing.T) {
	bubble(t, func(d *desk) {
		from, to := io.Pipe()
		stalled := read(d.open(d.ctx, listType, from))
		go func() { _, _ = to.Write(make([]byte, big)) }()
		synctest.Wait()
		second := d.list(d.ctx, big)
		if second.isDone() {
			d.Fatal("the second answer does not wait at all")
		}
		<-time.After(time.Second)
		if !second.isDone() {
			d.Error("the second answer waits for one that delivers nothing")
		}
		go func() {
			_, _ = to.Write(make([]byte, big))
			_ = to.Close()
		}()
		if !stalled.isDone() || stalled.n != 2*big {
			d.Errorf("the stalled answer: %d bytes, want all", stalled.n)
		}
	})
}

// TestATricklingAnswer never stalls, and loses its slot all the same. Then it continues.
func TestATricklingAnswer(t *testing.T) {
	t.Parallel()
	for name, kind := range map[string]string{"a list": listType, "an event": watchType} {
		bubbleCase(t, name, func(d *desk) {
			from, to := io.Pipe()
			body := d.open(d.ctx, kind, from)
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
				other := d.list(d.ctx, big)
				if other.isDone() {
					d.Error("the other answer does not wait at all")
				}
				<-time.After(6 * time.Second)
				if !other.isDone() {
					d.Error("the other answer waits for one that trickles")
				}
			}
			close(stop)
			<-trickling.done
			if trickling.err != nil || trickling.n < big/2+3*5*5 {
				d.Errorf("the answer that trickles: %d bytes, %v, want all", trickling.n, trickling.err)
			}
		})
	}
}

// TestEventsTakeTurns: a watch has a slot from the beginning of a large event until its reader
// asks for the next one, and none while nothing arrives.
func TestEventsTakeTurns(t *testing.T) {
	bubble(t, func(d *desk) {
		from, to := io.Pipe()
		events := d.open(d.ctx, watchType, from)
		go func() { _, _ = to.Write(append(event(10), event(big)...)) }()
		d.next(events, 10)
		d.next(events, big)
		list := d.list(d.ctx, big)
		if list.isDone() {
			d.Error("the list does not wait for the event")
		}
		rest := read(events)
		if !list.isDone() || rest.isDone() {
			d.Error("the list waits, although the watch asks for the next event")
		}
		_ = to.Close()
		<-rest.done
	})
}

// TestAReaderCanGiveUp with the context of the request, and Close returns a slot.
func TestAReaderCanGiveUp(t *testing.T) {
	bubble(t, func(d *desk) {
		from, to := io.Pipe()
		defer to.Close()
		first := d.open(d.ctx, watchType, from)
		go func() { _, _ = to.Write(event(big)) }()
		d.next(first, big)
		ctx, cancel := context.WithCancel(d.ctx)
		second := d.list(ctx, big)
		if second.isDone() {
			d.Fatal("the second answer does not wait")
		}
		cancel()
		if !second.isDone() || second.err == nil {
			d.Errorf("error = %v, want that of the context", second.err)
		}
		if err := first.Close(); err != nil {
			d.Error(err)
		}
		if third := d.list(d.ctx, big); !third.isDone() {
			d.Error("the third answer waits for a body that is closed")
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
