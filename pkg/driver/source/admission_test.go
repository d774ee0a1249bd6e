package source_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/api/identity"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/budget"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/source"
)

// longestRest is how long an object rests at most that there is no room for, with jitter;
// soonRead is how soon it is read when there is room, with what the client library waits between
// two lists.
const (
	longestRest = 3*time.Minute + longestSilence
	soonRead    = time.Second + longestSilence
)

// crowd takes all room but so many bytes, until it is closed.
func (b *bench) crowd(free int64) *budget.Account {
	a := b.room.Part(func(int64) {}).Account()
	a.Force(b.room.Limit() - b.room.Used() - free)
	return a
}

// wantCrowded checks that the old content is known, and that the error is about room.
func (b *bench) wantCrowded(want known) {
	b.t.Helper()
	b.settle()
	got := b.Get(b.key(web))
	if _, ok := errors.AsType[*budget.ExhaustedError](got.Err); !ok {
		b.t.Fatalf("Err = %v, want an *ExhaustedError", got.Err)
	}
	want.Err = got.Err.Error()
	b.want(web, want)
}

// BytesPerWatch is what a requested object takes, whether it exists or not.
const BytesPerWatch = 96 << 10

// wantUsed compares how much room the objects take.
func (b *bench) wantUsed(want int64) {
	b.t.Helper()
	b.settle()
	if got := b.room.Used(); got != want {
		b.t.Errorf("Used() = %d, want %d", got, want)
	}
}

// TestCostOf: bytes, entries of a map, a buffer for the next event, and the watch.
func TestCostOf(t *testing.T) {
	t.Parallel()
	content := api.Content{Data: map[string][]byte{"a": make([]byte, 999), "b": make([]byte, 999)}}
	if got, want := source.CostOf(content), int64(2000+2*160+8<<10+BytesPerWatch); got != want {
		t.Errorf("CostOf = %d, want %d", got, want)
	}
}

// TestAnObjectThatDoesNotExistTakesRoom too, since it is watched: from the first user to the last.
func TestAnObjectThatDoesNotExistTakesRoom(t *testing.T) {
	bubble(t, func(b *bench) {
		answer := b.Hold()
		defer answer()
		first := b.acquire(web)
		b.wantUsed(BytesPerWatch)
		answer()
		b.want(web, known{Synced: true})
		b.wantUsed(BytesPerWatch)
		second := b.acquire(web)
		b.wantUsed(BytesPerWatch)
		first()
		first()
		b.wantUsed(BytesPerWatch)
		second()
		b.wantUsed(0)

		others := b.crowd(0)
		giveBack := b.acquire(web)
		b.want(web, known{Synced: true})
		b.wantUsed(b.room.Limit() + BytesPerWatch)
		giveBack()
		others.Close()
		b.wantUsed(0)
	})
}

// TestANewObjectLeavesTheReserve, which is a quarter of the room, to the objects of live volumes.
// It is not read again and again while only the reserve is left, and follows when there is more.
func TestANewObjectLeavesTheReserve(t *testing.T) {
	bubble(t, func(b *bench) {
		o := b.putMap(configMap(web, strings.Repeat("x", 100_000)))
		others := b.crowd(b.room.Limit() / 4)
		defer b.acquire(web)()
		b.wantCrowded(known{})
		b.wantChanges(web, 1)
		b.wantWatches(web, 0, 1)
		b.wantUsed(others.Size() + BytesPerWatch)
		pass(time.Minute)
		b.wantCrowded(known{})
		b.WantRequests(web, "list")
		pass(longestRest)
		b.wantCrowded(known{})
		b.wantChanges(web, 0)
		others.Force(b.room.Limit() / 2)
		pass(soonRead)
		b.want(web, holding(o))
		if got := b.room.Used() - others.Size(); got < 200_000 || got > 400_000 {
			t.Errorf("it takes %d bytes, want some three times the content", got)
		}
	})
}

// TestWhatIsUsedAlreadyMayTakeTheReserve: objects of live volumes, also of an earlier run, beside
// new ones.
func TestWhatIsUsedAlreadyMayTakeTheReserve(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		before func(b *bench) (o *corev1.ConfigMap, giveBack func()) // While there is room.
		after  func(b *bench, o *corev1.ConfigMap) *corev1.ConfigMap
	}{
		"it grows, and is shared with a newcomer": {
			before: func(b *bench) (*corev1.ConfigMap, func()) { return b.putMap(configMap(web, "1")), b.acquire(web) },
			after: func(b *bench, _ *corev1.ConfigMap) *corev1.ConfigMap {
				b.t.Cleanup(b.acquire(web))
				return b.putMap(configMap(web, strings.Repeat("x", 100_000)))
			},
		},
		"it was not there, and comes": {
			before: func(b *bench) (*corev1.ConfigMap, func()) { return nil, b.acquire(web) },
			after: func(b *bench, _ *corev1.ConfigMap) *corev1.ConfigMap {
				return b.putMap(configMap(web, strings.Repeat("x", 100_000)))
			},
		},
		"it is immutable, and read again for a newcomer": {
			before: func(b *bench) (*corev1.ConfigMap, func()) { return b.putMap(immutable(web, "1")), b.acquire(web) },
			after: func(b *bench, _ *corev1.ConfigMap) *corev1.ConfigMap {
				b.settle()
				b.Remove(web)
				o := b.putMap(immutable(web, strings.Repeat("x", 100_000)))
				b.t.Cleanup(b.acquire(web))
				return o
			},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(b *bench) {
				o, giveBack := tc.before(b)
				defer giveBack()
				b.settle()
				b.crowd(1_000_000)
				b.want(web, holding(tc.after(b, o)))
			})
		})
	}
	t.Run("a volume of an earlier run uses it", func(t *testing.T) {
		early(t, identity.Driver(), recheck, func(b *bench) {
			o := b.putMap(configMap(web, "1"))
			b.crowd(1_000_000)
			defer b.acquire(web)()
			b.serve()
			b.want(web, holding(o))
		})
	})
}

// TestWhatIsStoredIsPaidFor: an immutable object is created, deleted and created again at once.
// Later events may still reach the watch that has ended with the first one.
func TestWhatIsStoredIsPaidFor(t *testing.T) {
	bubble(t, func(b *bench) {
		for n := range 40 {
			ref := api.Ref{Kind: api.ConfigMap, Namespace: "default", Name: fmt.Sprint("web-", n)}
			giveBack := b.acquire(ref)
			b.settle()
			b.putMap(immutable(ref, strings.Repeat("x", 100_000)))
			b.Remove(ref)
			b.putMap(configMap(ref, "less"))
			b.settle()
			if got := b.room.Used(); b.known(ref).Immutable && got < BytesPerWatch+100_000 {
				t.Errorf("Used() = %d while the content is stored, want it counted", got)
			}
			giveBack()
		}
	})
}

// TestAnObjectThatGrows beyond the room stays as it was, and follows when there is room or it is
// smaller.
func TestAnObjectThatGrows(t *testing.T) {
	each(t, identity.Driver(), map[string]func(b *bench, others *budget.Account, large *corev1.ConfigMap) known{
		"room is made": func(_ *bench, others *budget.Account, large *corev1.ConfigMap) known {
			others.Close()
			return holding(large)
		},
		"it shrinks again": func(b *bench, _ *budget.Account, _ *corev1.ConfigMap) known {
			return holding(b.putMap(configMap(web, "less")))
		},
		"it is deleted": func(b *bench, _ *budget.Account, _ *corev1.ConfigMap) known {
			b.Remove(web)
			return known{Synced: true}
		},
	}, func(b *bench, end func(*bench, *budget.Account, *corev1.ConfigMap) known) {
		small := b.putMap(configMap(web, "1"))
		giveBack := b.acquire(web)
		b.wantNow(holding(small), 1)
		others := b.crowd(10_000)
		large := b.putMap(configMap(web, strings.Repeat("x", 100_000)))
		b.wantCrowded(holding(small))
		b.wantChanges(web, 1)
		want := end(b, others, large)
		pass(longestRest)
		b.want(web, want)
		b.putMap(configMap(web, "2")) // It is watched again.
		b.settle()
		if got := b.known(web).Data["k"]; got != "2" {
			b.t.Errorf("content = %.20q, want the newest", got)
		}
		giveBack()
		others.Close()
		if got := b.room.Used(); got != 0 {
			b.t.Errorf("Used() = %d after the last user, want 0", got)
		}
	})
}
