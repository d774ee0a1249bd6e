package source_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/liveconfig-csi/liveconfig/pkg/api/identity"
)

// What is polled rests for 20 to 30 s in the end, and then for what the client library waits
// between two lists.
const (
	shortestPause = 20 * time.Second
	longestPause  = 30*time.Second + longestSilence
)

// untilPolled is as long as it may take until a refused watch is believed: the last read before
// may be a moment too early.
const untilPolled = longestDoubt + longestPause

// polling returns what is known where that is read now and then.
func polling(k known) known {
	k.Polled = true
	return k
}

// onlyGets lets nothing but gets be answered.
func (b *bench) onlyGets() {
	b.Answer(forbiddenList(), forbidden())
	b.AnswerGets(nil)
}

// forbiddenList is a denial that differs from those of other requests.
func forbiddenList() error {
	return apierrors.NewForbidden(corev1.Resource("configmaps"), "", errors.New("it may not list"))
}

func forbiddenGet() error {
	return apierrors.NewForbidden(corev1.Resource("configmaps"), "web", errors.New("it may not get"))
}

// TestAnObjectsLifeByGets has a reader that may get an object and nothing else, which is enough
// for the kubelet and an ordinary volume. In the end it may do everything.
func TestAnObjectsLifeByGets(t *testing.T) {
	bubble(t, func(b *bench) {
		b.onlyGets()
		defer b.acquire(web)()
		b.want(web, known{Synced: true}) // Nothing is there: an answer, and no error.
		b.wantChanges(web, 1)
		b.wantAfter(untilPolled, polling(known{Synced: true}), 1)
		pass(longestPause)
		b.wantChanges(web, 0)

		first := b.putMap(configMap(web, "1"))
		b.want(web, polling(known{Synced: true})) // There is no watch.
		b.wantAfter(longestPause, polling(holding(first)), 1)

		second := b.putMap(configMap(web, "2"))
		b.wantAfter(longestPause, polling(holding(second)), 1)

		b.Remove(web)
		b.wantAfter(longestPause, polling(known{Synced: true}), 1)

		third := b.putMap(configMap(web, "2"))
		b.wantAfter(longestPause, polling(holding(third)), 1)

		b.Remove(web)
		fourth := b.putMap(configMap(web, "2")) // Deleted and created between two reads.
		pass(longestPause)
		if fourth.UID == third.UID {
			t.Fatal("the cluster made another object with the same UID")
		}
		b.wantNow(polling(holding(fourth)), 1)
		b.wantWatches(web, 0, 1)
		if got := b.Count("watch"); got != 0 {
			t.Errorf("watches asked for: %d, want none after a list that is forbidden", got)
		}

		b.Answer(nil, nil) // All rights end the polling.
		b.wantAfter(longestPause, holding(fourth), 1)
		b.wantWatches(web, 1, 1)
		before := len(b.Requested(web))
		b.Bookmarks(15*time.Minute, web)
		if got := b.Requested(web)[before:]; len(got) != 0 {
			t.Errorf("requests while a watch is open: %v, want none", got)
		}
		b.wantNow(holding(b.putMap(configMap(web, "3"))), 1)
	})
}

// TestAGetThatFailsIsNoDenial although the list is one: nothing is known of whether the object
// may be read, so that its files must not go.
func TestAGetThatFailsIsNoDenial(t *testing.T) {
	each(t, identity.Driver(), map[string]error{
		"in time":      apierrors.NewTimeoutError("the get took too long", 1),
		"unavailable":  unavailable(),
		"refused":      refused(),
		"unauthorized": apierrors.NewUnauthorized("who are you"),
	}, func(b *bench, err error) {
		o := b.putMap(configMap(web, "1"))
		b.onlyGets()
		b.AnswerGets(err)
		defer b.acquire(web)()
		b.wantForbidden(web, "another error")
		b.want(web, known{Err: err.Error()})
		b.AnswerGets(nil)
		pass(longestSilence)
		b.want(web, holding(o))
		pass(untilPolled)
		b.want(web, polling(holding(o)))

		b.AnswerGets(err)
		pass(longestPause)
		b.want(web, polling(holding(o)).with(err))
		b.wantForbidden(web, "another error")
	})
}

// TestWhenEverythingIsRevoked: the watch that cannot be opened does not report it, because only
// watches may be denied. The list that comes next does.
func TestWhenEverythingIsRevoked(t *testing.T) {
	bubble(t, func(b *bench) {
		o := b.putMap(configMap(web, "1"))
		defer b.acquire(web)()
		b.wantChanges(web, 1)
		pass(time.Minute)
		b.Answer(forbiddenList(), forbidden())
		b.HangUp()
		b.wantNow(holding(o), 0)
		pass(2 * firstRetry)
		b.want(web, holding(o).with(forbiddenList()))
		b.wantForbidden(web, "forbidden")
		b.wantChanges(web, 1)
		if diff := cmp.Diff([]string{"list", "watch", "watch", "list", "get"}, b.Requested(web)[:5]); diff != "" {
			t.Errorf("requests (-want +got):\n%s", diff)
		}
	})
}
