package objectwatch

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/liveconfig-csi/liveconfig/pkg/driver/flowcontrol"
)

// longestEvent is the most bytes that an event may have. The API server stores no object a tenth
// as large.
const longestEvent = 16 << 20

// headLength is how many bytes show the form of an event. In protobuf they are its length; every
// JSON text is longer.
const headLength = 4

// stream is an open watch: its events as they arrive. The API server, or a proxy before it, chooses
// between protobuf and JSON. Between events the stream stores nothing.
type stream struct {
	ctx     context.Context // Of the request.
	body    io.ReadCloser
	decoder runtime.Decoder // Of objects, in either form.
	asked   time.Time       // When the request was made: some proxies answer with the first event.
	timeout time.Duration   // How long it was requested for.

	hasBrought bool // There was an event.
	head       [headLength]byte
	more       []byte // JSON that was read together with the previous event.
}

// shortWatch is the least duration of a watch that is worth opening again at once.
const shortWatch = time.Second

// isShort reports whether the stream, which is over, was useless.
func (s *stream) isShort() bool { return !s.hasBrought && time.Since(s.asked) < shortWatch }

// wait returns when an event has begun to arrive. It makes few calls, to keep the stack small.
func (s *stream) wait() error {
	for n := 0; n < headLength && len(s.more) == 0; {
		got, err := s.body.Read(s.head[n:])
		n += got
		if err != nil && n < headLength {
			return err
		}
	}
	return nil
}

// next returns the event that has begun to arrive.
func (s *stream) next() (watch.Event, error) {
	e, err := s.read()
	if err != nil {
		return watch.Event{}, err
	}
	o, _, err := s.decoder.Decode(e.Object.Raw, nil, nil)
	if err != nil {
		return watch.Event{}, fmt.Errorf("decode the object of an event: %w", err)
	}
	return watch.Event{Type: watch.EventType(e.Type), Object: o}, nil
}

func (s *stream) read() (e metav1.WatchEvent, err error) {
	if len(s.more) > 0 || bytes.IndexByte([]byte("{ \t\r\n"), s.head[0]) >= 0 { // No length begins so.
		return s.readJSON()
	}
	length := binary.BigEndian.Uint32(s.head[:])
	if length > longestEvent {
		return e, errTooLong()
	}
	flowcontrol.Expect(s.body, int64(length))
	data := make([]byte, length)
	if _, err := io.ReadFull(s.body, data); err != nil {
		return e, cut(err)
	}
	if err := e.Unmarshal(data); err != nil {
		return e, fmt.Errorf("decode an event of a watch: %w", err)
	}
	return e, nil
}

func (s *stream) readJSON() (e metav1.WatchEvent, err error) {
	begun := s.more
	if len(begun) == 0 {
		begun = s.head[:]
	}
	limited := &io.LimitedReader{R: io.MultiReader(bytes.NewReader(begun), s.body), N: longestEvent}
	d := json.NewDecoder(limited)
	err = d.Decode(&e)
	switch {
	case limited.N == 0:
		return e, errTooLong()
	case err != nil:
		return e, cut(err)
	}
	more, err := io.ReadAll(d.Buffered())
	s.more = bytes.TrimSpace(more)
	return e, err
}

func errTooLong() error { return errors.New("an event of a watch is longer than any object can be") }

// cut turns an end in the middle of an event into an unexpected one.
func cut(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
