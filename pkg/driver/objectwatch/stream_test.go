package objectwatch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/liveconfig-csi/liveconfig/pkg/daemon/kubeclient"
)

// formOf is how events are written in a content type.
type formOf func(t *testing.T, e watch.EventType, o *corev1.ConfigMap) []byte

// forms returns them by content type.
func forms(t *testing.T) (map[string]formOf, serializer.CodecFactory) {
	t.Helper()
	types, err := kubeclient.New()
	if err != nil {
		t.Fatal(err)
	}
	codecs := types.Codecs()
	raw := func(t *testing.T, kind string, o runtime.Object) []byte {
		t.Helper()
		info, _ := runtime.SerializerInfoForMediaType(codecs.SupportedMediaTypes(), kind)
		data, err := runtime.Encode(codecs.EncoderForVersion(info.Serializer, corev1.SchemeGroupVersion), o)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	return map[string]formOf{
		runtime.ContentTypeProtobuf: func(t *testing.T, kind watch.EventType, o *corev1.ConfigMap) []byte {
			t.Helper()
			e := metav1.WatchEvent{Type: string(kind), Object: runtime.RawExtension{Raw: raw(t, runtime.ContentTypeProtobuf, o)}}
			data, err := e.Marshal()
			if err != nil {
				t.Fatal(err)
			}
			return append(binary.BigEndian.AppendUint32(nil, uint32(len(data))), data...)
		},
		runtime.ContentTypeJSON: func(t *testing.T, kind watch.EventType, o *corev1.ConfigMap) []byte {
			t.Helper()
			e := metav1.WatchEvent{Type: string(kind), Object: runtime.RawExtension{Raw: raw(t, runtime.ContentTypeJSON, o)}}
			return raw(t, runtime.ContentTypeJSON, &e)
		},
	}, codecs
}

// all reads a stream to its end.
func (s *stream) all() (events []string, err error) {
	for err = s.wait(); err == nil; err = s.wait() {
		e, err := s.next()
		if err != nil {
			return events, err
		}
		o, ok := e.Object.(*corev1.ConfigMap)
		if !ok {
			return events, fmt.Errorf("it is a %T", e.Object)
		}
		events = append(events, fmt.Sprint(e.Type, " ", o.ResourceVersion, " ", len(o.Data["k"])))
	}
	return events, err
}

func streamOf(codecs serializer.CodecFactory, r io.Reader) *stream {
	return &stream{body: io.NopCloser(r), decoder: codecs.UniversalDeserializer()}
}

// TestAStreamInEitherForm, in whatever pieces it comes.
func TestAStreamInEitherForm(t *testing.T) {
	t.Parallel()
	all, codecs := forms(t)
	for kind, write := range all {
		var data []byte
		var want []string
		for i, size := range []int{1, 100_000, 0, 7} {
			o := &corev1.ConfigMap{Data: map[string]string{"k": strings.Repeat("x", size)}}
			o.ResourceVersion = fmt.Sprint(i)
			data = append(data, write(t, watch.Modified, o)...)
			want = append(want, fmt.Sprint("MODIFIED ", i, " ", size))
		}
		for how, r := range map[string]io.Reader{
			"at once": bytes.NewReader(data), "byte by byte": iotest.OneByteReader(bytes.NewReader(data)),
			"by halves": iotest.HalfReader(bytes.NewReader(data)), "with its end": iotest.DataErrReader(bytes.NewReader(data)),
		} {
			t.Run(kind+" "+how, func(t *testing.T) {
				t.Parallel()
				got, err := streamOf(codecs, r).all()
				if diff := cmp.Diff(want, got); diff != "" || !isHangup(err) {
					t.Errorf("%v (-want +got):\n%s", err, diff)
				}
			})
		}
	}
}

// TestAStreamThatIsCut anywhere ends as its connection does, after the events that are whole.
func TestAStreamThatIsCut(t *testing.T) {
	t.Parallel()
	all, codecs := forms(t)
	for kind, write := range all {
		one := bytes.TrimSpace(write(t, watch.Added, &corev1.ConfigMap{Data: map[string]string{"k": "value"}}))
		for n := range len(one) {
			got, err := streamOf(codecs, bytes.NewReader(append(bytes.Clone(one), one[:n]...))).all()
			if len(got) != 1 || !isHangup(err) {
				t.Fatalf("%s cut after %d bytes of its second event: %v, %v; want one event, and that it was cut", kind, n, got, err)
			}
		}
	}
}

// TestAStreamThatIsNone is an error, which is not taken for the end of a connection: it would be
// asked for at once again.
func TestAStreamThatIsNone(t *testing.T) {
	t.Parallel()
	_, codecs := forms(t)
	for name, text := range map[string]string{
		"a page of a proxy":       "<html>log in</html>",
		"protobuf that is none":   "\x00\x00\x00\x04none",
		"a length beyond reason":  "\x7f\xff\xff\xff",
		"a little too long":       "\x01\x00\x00\x01",
		"JSON that is none":       `{"type":,}`,
		"JSON of another kind":    `{"type":"ADDED","object":{"kind":"Odd","apiVersion":"v1"}}`,
		"JSON without an object":  `{"type":"ADDED"}`,
		"JSON that does not end":  `{"type":"` + strings.Repeat("x", longestEvent) + `"}`,
		"text that is not framed": "nothing to see",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := streamOf(codecs, strings.NewReader(text)).all()
			if len(got) != 0 || err == nil || isHangup(err) {
				t.Errorf("%v, %v; want an error", got, err)
			}
		})
	}
}

// TestNothingIsHeldBetweenEvents: neither a buffer, nor what was decoded.
func TestNothingIsHeldBetweenEvents(t *testing.T) {
	t.Parallel()
	all, codecs := forms(t)
	for kind, write := range all {
		data := write(t, watch.Added, &corev1.ConfigMap{Data: map[string]string{"k": strings.Repeat("x", 1<<20)}})
		s := streamOf(codecs, bytes.NewReader(data))
		if _, err := s.all(); !isHangup(err) || errors.Is(err, errTooLong()) {
			t.Fatalf("%s: %v", kind, err)
		}
		if got := cap(s.more); got > headLength {
			t.Errorf("%s: %d bytes are stored, want none", kind, got)
		}
	}
}
