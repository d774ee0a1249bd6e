package telemetry_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/telemetry"
)

// server is the API server's side of Events.
type server struct {
	mu      sync.Mutex // Guards the fields below.
	created []*corev1.Event
	patches int
	gate    chan struct{} // Creations wait for it, unless nil.
}

func (s *server) create(action clienttesting.Action) (handled bool, answer runtime.Object, err error) {
	if s.gate != nil {
		<-s.gate
	}
	create, ok := action.(clienttesting.CreateAction)
	if !ok {
		return true, nil, fmt.Errorf("a %T is no creation", action)
	}
	event, ok := create.GetObject().(*corev1.Event)
	if !ok {
		return true, nil, fmt.Errorf("a %T is no Event", create.GetObject())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, earlier := range s.created {
		if earlier.Name == event.Name {
			return true, nil, apierrors.NewAlreadyExists(corev1.Resource("events"), event.Name)
		}
	}
	s.created = append(s.created, event)
	return true, event, nil
}

func (s *server) patch(action clienttesting.Action) (handled bool, answer runtime.Object, err error) {
	patch, ok := action.(clienttesting.PatchAction)
	if !ok {
		return true, nil, fmt.Errorf("a %T is no patch", action)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.patches++
	for i, event := range s.created {
		if event.Name == patch.GetName() {
			s.created[i] = event.DeepCopy()
			return true, s.created[i], json.Unmarshal(patch.GetPatch(), s.created[i])
		}
	}
	return true, nil, fmt.Errorf("no event %s", patch.GetName())
}

func (s *server) events() []*corev1.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]*corev1.Event(nil), s.created...)
}

// writer is an Events that runs until the bubble ends.
type writer struct {
	*testing.T
	*telemetry.Events
	server *server
	run    func()
	stop   func()
}

// bubble runs a test on a writer that does not run yet. Its end checks that no goroutine is left.
func bubble(t *testing.T, test func(w *writer)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { test(newWriter(t)) })
}

func newWriter(t *testing.T) *writer {
	t.Helper()
	w := &writer{T: t, server: &server{}}
	clients := &fake.Clientset{}
	clients.AddReactor("create", "events", w.server.create)
	clients.AddReactor("patch", "events", w.server.patch)
	ctx, cancel := context.WithCancel(t.Context())
	events, err := telemetry.NewEvents(ctx, clients.CoreV1(), "csi.test", "node-1")
	if err != nil {
		t.Fatalf("NewEvents() = %v, want nil", err)
	}
	w.Events = events
	ended := make(chan error, 1)
	w.run = func() {
		events.Start(ctx)
		go func() { ended <- events.Run(ctx) }()
		synctest.Wait()
	}
	w.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run() = %v, want nil", err)
		}
	})
	t.Cleanup(w.stop)
	return w
}

// write sends an Event a moment after the last one: Events are named by the clock, which stands still in a bubble.
func (w *writer) write(e telemetry.Event) {
	<-time.After(time.Millisecond)
	w.Write(e)
	synctest.Wait()
}

func trouble(note string) telemetry.Event {
	return telemetry.Event{
		Pod:    api.Pod{Namespace: "default", Name: "app", UID: "uid-app", ServiceAccount: "default"},
		Volume: "config", Warning: true, Reason: "SourceMissing", Note: note,
	}
}

func TestEventIsAboutAVolumeOfAPod(t *testing.T) {
	bubble(t, func(w *writer) {
		w.run()
		w.write(trouble(`configmap "web" not found`))
		news := trouble("a change")
		news.Warning, news.Reason = false, "Projected"
		w.write(news)
		type seen struct {
			Namespace, Type, Reason, Message string
			Count                            int32
			InvolvedObject                   corev1.ObjectReference
			Source                           corev1.EventSource
		}
		var got []seen
		for _, e := range w.server.events() {
			got = append(got, seen{e.Namespace, e.Type, e.Reason, e.Message, e.Count, e.InvolvedObject, e.Source})
		}
		pod := corev1.ObjectReference{
			Kind: "Pod", APIVersion: "v1", Namespace: "default", Name: "app", UID: "uid-app", FieldPath: "spec.volumes{config}",
		}
		from := corev1.EventSource{Component: "csi.test", Host: "node-1"}
		want := []seen{
			{"default", "Warning", "SourceMissing", `configmap "web" not found`, 1, pod, from},
			{"default", "Normal", "Projected", "a change", 1, pod, from},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			w.Errorf("Events (-want +got):\n%s", diff)
		}
	})
}

func TestEqualEventsAreCountedInOne(t *testing.T) {
	bubble(t, func(w *writer) {
		w.run()
		for range 3 {
			w.write(trouble("the same"))
		}
		events := w.server.events()
		if len(events) != 1 || events[0].Count != 3 {
			w.Errorf("Events = %v, want one with count 3", events)
		}
	})
}

func TestLongNotesAreCut(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		note, want string
	}{
		"a short one":              {note: "short", want: "short"},
		"none":                     {},
		"the longest":              {note: strings.Repeat("x", 1024), want: strings.Repeat("x", 1024)},
		"a byte too long":          {note: strings.Repeat("x", 1025), want: strings.Repeat("x", 1021) + "..."},
		"the longest, in 2 bytes":  {note: strings.Repeat("é", 512), want: strings.Repeat("é", 512)},
		"half a character goes":    {note: strings.Repeat("é", 513), want: strings.Repeat("é", 510) + "..."},
		"most of a character goes": {note: "x" + strings.Repeat("😀", 300), want: "x" + strings.Repeat("😀", 255) + "..."},
		"a character fits just so": {note: strings.Repeat("x", 1019) + strings.Repeat("é", 9), want: strings.Repeat("x", 1019) + "é..."},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w *writer) {
				w.run()
				w.write(trouble(tt.note))
				got := w.server.events()[0].Message
				if got != tt.want {
					w.Errorf("message = %q, want %q", got, tt.want)
				}
				if len(got) > 1024 || !utf8.ValidString(got) {
					w.Errorf("message has %d bytes, valid UTF-8 = %t, want at most 1024 and true", len(got), utf8.ValidString(got))
				}
			})
		})
	}
}

// TestBusyReasonIsLimited: a reason that comes too often for one volume is in no other one's way.
func TestBusyReasonIsLimited(t *testing.T) {
	bubble(t, func(w *writer) {
		w.run()
		requests := func() int {
			w.server.mu.Lock()
			defer w.server.mu.Unlock()
			return len(w.server.created) + w.server.patches
		}
		for i := range 50 {
			w.write(trouble(fmt.Sprintf("change %d", i)))
		}
		if got := requests(); got != 10 {
			w.Errorf("%d requests, want 10", got)
		}
		for _, change := range []func(*telemetry.Event){
			func(e *telemetry.Event) { e.Reason = "AccessLost" },
			func(e *telemetry.Event) { e.Volume = "other" },
			func(e *telemetry.Event) { e.Pod.UID = "uid-later" },
		} {
			before, other := requests(), trouble("another")
			change(&other)
			w.write(other)
			if got := requests() - before; got != 1 {
				w.Errorf("%d requests for %v, want 1", got, other)
			}
		}
		before := requests()
		<-time.After(time.Minute)
		for i := range 5 {
			w.write(trouble(fmt.Sprintf("later change %d", i)))
		}
		if got := requests() - before; got != 1 {
			w.Errorf("%d requests a minute later, want 1", got)
		}
	})
}

// TestWriteNeverWaits: not for a server that hangs, not before Run, and not after it.
func TestWriteNeverWaits(t *testing.T) {
	bubble(t, func(w *writer) {
		w.server.gate = make(chan struct{})
		began := time.Now()
		w.Write(trouble("before"))
		w.run()
		for i := range 5000 {
			other := trouble("during")
			other.Volume = fmt.Sprint(i)
			w.Write(other)
		}
		if got := time.Since(began); got != 0 {
			w.Errorf("the writes took %s, want no time", got)
		}
		close(w.server.gate)
		synctest.Wait()
		if got := len(w.server.events()); got == 0 {
			w.Error("no Event was made, want those that fitted into the queue")
		}
		w.stop()
		w.Write(trouble("after"))
		synctest.Wait()
		for _, e := range w.server.events() {
			if e.Message != "during" {
				w.Errorf("an Event says %q, want only those during Run", e.Message)
			}
		}
	})
}

// TestARestartedDriverAddsNoEvent that says what an earlier run has said: the one that is there is made new again, and
// what the driver adds to it later finds it.
func TestARestartedDriverAddsNoEvent(t *testing.T) {
	bubble(t, func(w *writer) {
		w.run()
		w.write(trouble("the same"))
		earlier := w.server.events()[0]
		w.stop()
		<-time.After(time.Minute)
		next := newWriter(w.T)
		next.server.created = []*corev1.Event{earlier.DeepCopy()}
		next.run()
		next.write(trouble("the same"))
		events := next.server.events()
		if len(events) != 1 || events[0].LastTimestamp.Sub(earlier.LastTimestamp.Time) < 59*time.Second { // In JSON it has whole seconds.
			w.Fatalf("Events = %v, want %v with a later time", events, earlier)
		}
		next.write(trouble("the same"))
		next.write(trouble("something else"))
		if events := next.server.events(); len(events) != 2 || events[0].Count != 2 {
			w.Errorf("Events = %v, want one with count 2 and another one", events)
		}
	})
}

func TestDroppedEventsAreCounted(t *testing.T) {
	bubble(t, func(w *writer) {
		w.run()
		for i := range 25 {
			w.write(trouble(fmt.Sprintf("change %d", i)))
		}
		if got := w.Dropped(); got != 15 {
			w.Errorf("Dropped() = %d, want 15", got)
		}
	})
}

// TestEventsOfPodsWithLongNames have names that an API server takes.
func TestEventsOfPodsWithLongNames(t *testing.T) {
	bubble(t, func(w *writer) {
		w.run()
		long := trouble("note")
		long.Pod.Name = strings.Repeat("n", 253)
		w.write(long)
		if name := w.server.events()[0].Name; len(name) != 253 || !strings.HasPrefix(name, "nnn") {
			w.Errorf("the Event's name is %q with %d bytes, want 253", name, len(name))
		}
	})
}
