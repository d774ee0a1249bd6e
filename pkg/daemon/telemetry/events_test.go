package telemetry_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/daemon/telemetry"
)

func trouble(note string) telemetry.Event {
	return telemetry.Event{
		Pod:    api.Pod{Namespace: "default", Name: "app", UID: "uid-app", ServiceAccount: "default"},
		Volume: "config", Warning: true, Reason: "SourceMissing", Note: note,
	}
}

// news is that something has changed for the better.
func news(volume, note string) telemetry.Event {
	e := trouble(note)
	e.Volume, e.Warning, e.Reason = volume, false, "Projected"
	return e
}

func TestEventIsAboutAVolumeOfAPod(t *testing.T) {
	bubble(t, func(w *writer) {
		w.write(trouble(`configmap "web" not found`))
		w.write(news("config", "a change"))
		w.pass(longestDelay)
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
		for i := range 50 {
			w.write(trouble(fmt.Sprintf("change %d", i)))
		}
		if got := w.server.requests(); got != 10 || w.Dropped() != 40 {
			w.Errorf("%d requests and %d dropped, want 10 and 40", got, w.Dropped())
		}
		for _, change := range []func(*telemetry.Event){
			func(e *telemetry.Event) { e.Reason = "AccessLost" },
			func(e *telemetry.Event) { e.Volume = "other" },
			func(e *telemetry.Event) { e.Pod.UID = "uid-later" },
		} {
			before, other := w.server.requests(), trouble("another")
			change(&other)
			w.write(other)
			if got := w.server.requests() - before; got != 1 {
				w.Errorf("%d requests for %v, want 1", got, other)
			}
		}
		before := w.server.requests()
		w.pass(time.Minute)
		for i := range 5 {
			w.write(trouble(fmt.Sprintf("later change %d", i)))
		}
		if got := w.server.requests() - before; got != 1 {
			w.Errorf("%d requests a minute later, want 1", got)
		}
	})
}

// TestWriteNeverWaits: not for a server that hangs, not before Run, and not after it.
func TestWriteNeverWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWriter(t)
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

// TestARestartedDriverAddsNoEvent that an earlier run has written: the one that is there, in which equal ones are
// counted, is made new again, and what the driver adds to it later finds it.
func TestARestartedDriverAddsNoEvent(t *testing.T) {
	bubble(t, func(w *writer) {
		for range 3 {
			w.write(trouble("the same"))
		}
		earlier := w.server.events()[0]
		if got := w.server.events(); len(got) != 1 || earlier.Count != 3 {
			w.Errorf("Events = %v, want one with count 3", got)
		}
		w.stop()
		w.pass(time.Minute)
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
		if events := next.server.events(); len(events) != 2 || events[0].Count != 4 {
			w.Errorf("Events = %v, want one with count 4 and another one", events)
		}
	})
}

// TestEventsOfPodsWithLongNames have names that an API server takes.
func TestEventsOfPodsWithLongNames(t *testing.T) {
	bubble(t, func(w *writer) {
		long := trouble("note")
		long.Pod.Name = strings.Repeat("n", 253)
		w.write(long)
		if name := w.server.events()[0].Name; len(name) != 253 || !strings.HasPrefix(name, "nnn") {
			w.Errorf("the Event's name is %q with %d bytes, want 253", name, len(name))
		}
	})
}
