package source_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"github.com/liveconfig-csi/liveconfig/pkg/driver/flowcontrol"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/objectwatch/fakeserver"
)

// sizeOfObject is that of all values of an object on a wire.
const sizeOfObject = 1 << 10

// wire plays the API server behind a transport, so that all of the client library is at work: it
// answers in protobuf, and keeps watches open.
type wire struct {
	*fakeserver.Front
	keys int // Of each object, with sizeOfObject bytes together.

	mu       sync.Mutex // Guards the fields below.
	requests int
	version  int
	streams  map[string]*io.PipeWriter // Of the open watches, by the object's name.
}

func newWire(t *testing.T, keys int) *wire {
	t.Helper()
	return &wire{Front: fakeserver.NewFront(t), keys: keys, streams: map[string]*io.PipeWriter{}}
}

// client returns a client as the driver has one.
func (w *wire) client() rest.Interface { return w.Client(flowcontrol.New(2).Transport(w)) }

// RoundTrip is [http.RoundTripper].
func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	verb, ref, _ := w.Asked(r)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.requests++
	if verb == "watch" {
		reader, writer := io.Pipe()
		context.AfterFunc(r.Context(), func() { writer.CloseWithError(r.Context().Err()) })
		w.streams[ref.Name] = writer
		return w.Stream(r, reader), nil
	}
	return w.Answer(r, &corev1.ConfigMapList{
		ListMeta: metav1.ListMeta{ResourceVersion: strconv.Itoa(w.version)}, Items: []corev1.ConfigMap{*w.object(ref.Name)},
	}, nil)
}

// object returns the next version of an object, with what the API server adds to one that kubectl
// has made.
func (w *wire) object(name string) *corev1.ConfigMap {
	w.version++
	o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Name: name, Namespace: web.Namespace, UID: types.UID("uid-" + name), ResourceVersion: strconv.Itoa(w.version),
		CreationTimestamp: metav1.Unix(1_700_000_000, 0),
		ManagedFields: []metav1.ManagedFieldsEntry{{
			Manager: "kubectl-edit", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", FieldsType: "FieldsV1",
			Time: new(metav1.Unix(1_700_000_000, 0)), FieldsV1: metav1.NewFieldsV1(`{"f:data":{".":{},"f:key":{}}}`),
		}},
	}, Data: map[string]string{}}
	for i := range w.keys {
		o.Data[fmt.Sprintf("key-%d", i)] = strings.Repeat("x", sizeOfObject/w.keys)
	}
	return o
}

func (w *wire) change(name string) []byte {
	return w.Event(watch.Event{Type: watch.Modified, Object: w.object(name)})
}

func (w *wire) bookmark() []byte {
	w.version++
	return w.Event(watch.Event{Type: watch.Bookmark, Object: &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{ResourceVersion: strconv.Itoa(w.version)}}})
}

// send sends the event to the watch of the object, and lets everything happen that follows.
func (w *wire) send(name string, event []byte) {
	w.mu.Lock()
	stream := w.streams[name]
	w.mu.Unlock()
	if _, err := stream.Write(event); err != nil {
		w.T.Error(err)
	}
	synctest.Wait()
}

func (w *wire) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.requests
}

// TestLargeEventsTakeTurns: the gate has slots for two, so a third large event is decoded when
// another one has delivered nothing for a while, or is complete.
func TestLargeEventsTakeTurns(t *testing.T) {
	onWire(t, 1, func(g *guarded) {
		g.use(0, 3)
		before := g.changes.Load()
		wantChanges := func(when string, want int64) {
			t.Helper()
			synctest.Wait()
			if got := g.changes.Load() - before; got != want {
				t.Errorf("%d events were decoded %s, want %d", got, when, want)
			}
		}
		var rests [][]byte
		for i := range 3 {
			large := g.object(nameOf(i))
			large.Data["large"] = strings.Repeat("x", 100<<10)
			event := g.Event(watch.Event{Type: watch.Modified, Object: large})
			cut := []int{len(event) / 2, len(event) / 2, len(event)}[i]
			rests = append(rests, event[cut:])
			go func() { _, _ = g.streams[nameOf(i)].Write(event[:cut]) }()
			synctest.Wait()
		}
		wantChanges("while two others are read", 0)
		pass(300 * time.Millisecond)
		wantChanges("after the others have stalled", 1)
		for i := range 2 {
			g.send(nameOf(i), rests[i])
		}
		wantChanges("at last", 3)
	})
}
