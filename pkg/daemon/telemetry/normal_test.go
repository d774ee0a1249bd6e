package telemetry_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// wantNotes compares the Events, in their order.
func (w *writer) wantNotes(want ...string) {
	w.Helper()
	if diff := cmp.Diff(want, w.server.notes()); diff != "" {
		w.Errorf("requests (-want +got):\n%s", diff)
	}
}

// TestNormalEventsWait until an update of all volumes is over, and report the last change, with its time.
func TestNormalEventsWait(t *testing.T) {
	bubble(t, func(w *writer) {
		for i := range 5 {
			w.write(news("config", fmt.Sprintf("change %d", i)))
			w.pass(shortestDelay / 10)
		}
		w.write(news("other", "another volume"))
		last := time.Now().Add(-shortestDelay / 10)
		w.pass(shortestDelay/2 - 1)
		w.wantNotes()
		w.pass(longestDelay)
		notes := w.server.notes()
		slices.Sort(notes)
		if diff := cmp.Diff([]string{"another volume", "change 4"}, notes); diff != "" {
			w.Errorf("requests (-want +got):\n%s", diff)
		}
		for _, e := range w.server.events() {
			if e.Message == "change 4" && (!e.LastTimestamp.Time.Equal(last.Truncate(time.Second)) || e.Count != 1) {
				w.Errorf("Event = %v, want it of %s", e, last)
			}
		}
		w.write(news("config", "a later change"))
		w.pass(longestDelay)
		if got := w.server.requests(); got != 3 {
			w.Errorf("%d requests, want one more for a later change", got)
		}
	})
}

// TestNormalEventsAreNotDelayedForever by more of it.
func TestNormalEventsAreNotDelayedForever(t *testing.T) {
	bubble(t, func(w *writer) {
		began := time.Now()
		for i := range 70 {
			w.write(news("config", fmt.Sprintf("change %d", i)))
			w.pass(shortestDelay / 2)
		}
		if got := w.server.requests() + w.Dropped(); got < 3 || got > 35 {
			w.Errorf("%d are sent or dropped in %s, want one in %s to %s", got, time.Since(began), shortestDelay, longestDelay)
		}
	})
}

// TestNodesSpreadTheirEvents: each node draws for itself when it reports a change, and all seconds are alike.
func TestNodesSpreadTheirEvents(t *testing.T) {
	bubble(t, func(w *writer) {
		const draws = 300
		told := map[int]int{} // How many, by the second after the change.
		for i := range draws {
			changed := time.Now()
			w.write(news(fmt.Sprint(i), "a change"))
			w.pass(longestDelay)
			log := w.server.log()
			if len(log) != i+1 {
				w.Fatalf("%d changes are told of within %s, want %d", len(log), longestDelay, i+1)
			}
			told[int(log[i].at.Sub(changed)/time.Second)]++
		}
		for second := range 10 {
			got, least, most := told[second], draws/60, draws/4
			if second == 0 {
				least, most = 0, 0
			}
			if got < least || got > most {
				w.Errorf("%d of %d are told of in second %d, want %d to %d; all: %v", got, draws, second, least, most, told)
			}
		}
	})
}

// TestNormalEventsArePaced: a change of all volumes is reported over some seconds.
func TestNormalEventsArePaced(t *testing.T) {
	bubble(t, func(w *writer) {
		for i := range 210 {
			w.Write(news(fmt.Sprint(i), "a change"))
		}
		w.pass(longestDelay + 25*time.Second)
		log := w.server.log()
		if len(log) != 210 {
			w.Fatalf("%d requests, want 210", len(log))
		}
		for i := range log[10:] {
			if took := log[i+10].at.Sub(log[i].at); took < time.Second {
				w.Errorf("11 requests in %s, want at most 10 in a second", took)
			}
		}
		if got := w.Dropped(); got != 0 {
			w.Errorf("Dropped() = %d, want 0", got)
		}
	})
}

// TestWarningsGoFirst, at once, however much news is on its way.
func TestWarningsGoFirst(t *testing.T) {
	bubble(t, func(w *writer) {
		for i := range 200 {
			w.Write(news(fmt.Sprint(i), "a change"))
		}
		w.pass(longestDelay)
		before := w.server.requests()
		if before == 0 || before > 100 {
			w.Fatalf("%d requests, want some, and as many again to come", before)
		}
		w.write(trouble("not found"))
		if notes := w.server.notes(); len(notes) != before+1 || notes[before] != "not found" {
			w.Errorf("requests = %q, want the warning after the first %d", notes, before)
		}
		w.pass(time.Minute)
		if got := w.server.requests(); got != 201 {
			w.Errorf("%d requests, want 201", got)
		}
	})
}

// TestTheLastWordIsRight: trouble and its end come in their order, and an end that was none is not reported.
func TestTheLastWordIsRight(t *testing.T) {
	bubble(t, func(w *writer) {
		w.write(trouble("not found"))
		w.write(news("config", "current again"))
		w.pass(longestDelay)
		w.wantNotes("not found", "current again")
		w.write(news("config", "current once more"))
		w.write(news("other", "a change"))
		w.write(trouble("not found either"))
		w.pass(longestDelay)
		w.wantNotes("not found", "current again", "not found either", "a change")
		w.write(news("config", "current at last"))
		w.pass(longestDelay)
		w.wantNotes("not found", "current again", "not found either", "a change", "current at last")
	})
}

// TestNormalEventsAreLimited as trouble is: to ten, and two more for the two minutes. What takes the place of what has not been
// reported yet does not count.
func TestNormalEventsAreLimited(t *testing.T) {
	bubble(t, func(w *writer) {
		for i := range 15 {
			for range 3 {
				w.write(news("config", fmt.Sprintf("change %d", i)))
			}
			w.pass(longestDelay)
		}
		if got := w.server.requests(); got != 12 || w.Dropped() != 3 {
			w.Errorf("%d requests and %d dropped, want 12 and 3", got, w.Dropped())
		}
	})
}

// TestWhatWaitsIsBounded, news and trouble each.
func TestWhatWaitsIsBounded(t *testing.T) {
	bubble(t, func(w *writer) {
		w.server.gate = make(chan struct{})
		w.write(trouble("the one that hangs"))
		for i := range 1050 {
			e := trouble("trouble")
			e.Volume = fmt.Sprint("bad-", i)
			w.Write(e)
			w.Write(news(fmt.Sprint("good-", i), "news"))
		}
		if got := w.Dropped(); got != 100 {
			w.Errorf("Dropped() = %d, want 100", got)
		}
		close(w.server.gate)
		w.pass(5 * time.Minute)
		if got := w.server.requests(); got != 2001 {
			w.Errorf("%d requests, want 2001", got)
		}
	})
}

// TestRunDoesNotWaitForNormalEvents.
func TestRunDoesNotWaitForNormalEvents(t *testing.T) {
	bubble(t, func(w *writer) {
		w.write(news("config", "a change"))
		began := time.Now()
		w.stop()
		if got := time.Since(began); got != 0 {
			w.Errorf("the end took %s, want no time", got)
		}
		w.pass(time.Minute)
		w.wantNotes()
	})
}

// failing returns the error of a request that does not arrive.
func failing(isBroken bool) error {
	return map[bool]error{true: errors.New("no route to host")}[isBroken]
}

// TestARequestThatIsSwallowedHoldsNothingUpForLong: the Event is sent again, and others after it.
func TestARequestThatIsSwallowedHoldsNothingUpForLong(t *testing.T) {
	bubble(t, func(w *writer) {
		tries := 0
		w.server.broken = func(r *http.Request) error {
			if tries++; tries == 1 { // It stays open until it is given up.
				<-r.Context().Done()
			}
			return failing(tries == 1)
		}
		w.Write(trouble("swallowed"))
		w.Write(trouble("behind it"))
		w.pass(time.Minute)
		w.wantNotes("swallowed", "behind it")
		if tries != 3 {
			w.Errorf("%d requests in a minute, want 3: one that is given up, the same again, and the next", tries)
		}
	})
}

// TestNormalEventsAreSentAgain is sent later, after the trouble of the meantime, unless a newer Event replaces it.
func TestNormalEventsAreSentAgain(t *testing.T) {
	bubble(t, func(w *writer) {
		broken := true
		w.server.broken = func(*http.Request) error { return failing(broken) }
		for _, volume := range []string{"a", "b", "config"} {
			w.write(news(volume, "old news of "+volume))
			w.pass(longestDelay) // Now it is being tried, or behind one that is.
		}
		broken = false
		w.write(news("a", "newer news of a"))
		w.write(trouble("not found"))
		w.pass(time.Minute)
		notes := w.server.notes()
		if len(notes) == 0 || notes[0] != "not found" {
			w.Fatalf("requests = %q, want the warning first", notes)
		}
		slices.Sort(notes)
		if diff := cmp.Diff([]string{"newer news of a", "not found", "old news of b"}, notes); diff != "" {
			w.Errorf("requests (-want +got):\n%s", diff)
		}
	})
}

// TestATryIsNotCounted: what is sent again and again is one Event for the limit.
func TestATryIsNotCounted(t *testing.T) {
	bubble(t, func(w *writer) {
		tries := 0
		w.server.broken = func(*http.Request) error {
			tries++
			return failing(tries <= 5)
		}
		for i := range 10 {
			w.write(news("config", fmt.Sprintf("change %d", i)))
			w.pass(time.Minute)
		}
		for i := range 9 {
			w.write(news("config", fmt.Sprintf("late change %d", i)))
			w.pass(longestDelay)
		}
		if got := w.server.requests(); got != 19 || w.Dropped() != 0 {
			w.Errorf("%d requests and %d dropped, want 19 and none", got, w.Dropped())
		}
	})
}

// TestAnEventIsGivenUpInTheEnd: two minutes without an API server, and the ones behind it have their turn.
func TestAnEventIsGivenUpInTheEnd(t *testing.T) {
	bubble(t, func(w *writer) {
		tries := 0
		w.server.broken = func(*http.Request) error {
			tries++
			return failing(tries <= 12)
		}
		w.write(trouble("lost"))
		w.write(trouble("behind it"))
		w.pass(90 * time.Second)
		w.wantNotes()
		w.pass(time.Minute)
		w.wantNotes("behind it")
	})
}

// TestWhatIsRefusedIsNotSentAgain: it would be refused again.
func TestWhatIsRefusedIsNotSentAgain(t *testing.T) {
	t.Parallel()
	terminating := apierrors.NewForbidden(corev1.Resource("events"), "", errors.New("the namespace is being terminated"))
	terminating.ErrStatus.Details.Causes = append(terminating.ErrStatus.Details.Causes, metav1.StatusCause{Type: corev1.NamespaceTerminatingCause})
	for sentence, err := range map[string]error{
		"by RBAC":                          apierrors.NewForbidden(corev1.Resource("events"), "", errors.New("no role")),
		"because its namespace is removed": terminating,
	} {
		t.Run(sentence, func(t *testing.T) {
			bubble(t, func(w *writer) {
				w.server.refuse = func(*corev1.Event) error { return err }
				w.write(trouble("refused"))
				w.write(trouble("refused as well"))
				w.pass(time.Hour)
				w.wantNotes("refused", "refused as well")
			})
		})
	}
}

// TestAnExpiredEventIsCreatedAgain with all that is known of it.
func TestAnExpiredEventIsCreatedAgain(t *testing.T) {
	bubble(t, func(w *writer) {
		w.write(trouble("the same"))
		first := w.server.events()[0]
		w.pass(2 * time.Hour)
		w.server.created = nil
		w.write(trouble("the same"))
		events := w.server.events()
		if len(events) != 1 || events[0].Count != 2 || !events[0].FirstTimestamp.Equal(&first.FirstTimestamp) {
			w.Errorf("Events = %v, want one with count 2, and the time of the first", events)
		}
	})
}
