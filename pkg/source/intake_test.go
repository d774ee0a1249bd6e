package source_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/budget"
	"github.com/liveconfig-csi/liveconfig/pkg/source"
)

// longestRest is how long an object rests at most that there is no room for, with jitter; soonRead is how soon it is read
// when there is room, with what the client library waits between two lists.
const (
	longestRest = 3*time.Minute + longestSilence
	soonRead    = time.Second + longestSilence
)

// roomy is room for everything.
func roomy() source.Room { return budget.New(1 << 40).Part(func(int64) {}) }

// crowd takes all room but so many bytes, until it is closed.
func (b *bench) crowd(free int64) *budget.Account {
	a := b.room.Part(func(int64) {}).Account()
	a.Force(b.room.Limit() - b.room.Used() - free)
	return a
}

// wantCrowded checks that the object is known as it was, and that there is no room for what it is now.
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

// TestAnObjectThatThereIsNoRoomFor is not taken, not even read again and again, until there is room.
func TestAnObjectThatThereIsNoRoomFor(t *testing.T) {
	bubble(t, func(b *bench) {
		first := b.putMap(configMap(web, strings.Repeat("x", 100_000)))
		others := b.crowd(200_000)
		defer b.acquire(web)()
		b.wantCrowded(known{})
		b.wantChanges(web, 1)
		b.wantWatches(web, 0, 1)
		pass(longestRest)
		b.wantCrowded(known{})
		b.wantChanges(web, 0)
		others.Close()
		pass(soonRead)
		b.want(web, holding(first))
		if got := b.room.Used(); got < 200_000 || got > 400_000 {
			t.Errorf("Used() = %d, want some three times the content", got)
		}
	})
}

// TestAnObjectThatGrows beyond what there is room for keeps its content, and follows when there is room or it is smaller.
func TestAnObjectThatGrows(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(b *bench, others *budget.Account){
		"room is made":     func(_ *bench, others *budget.Account) { others.Close() },
		"it shrinks again": func(b *bench, _ *budget.Account) { b.putMap(configMap(web, "less")) },
		"it is deleted":    func(b *bench, _ *budget.Account) { b.remove(web) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(b *bench) {
				small := b.putMap(configMap(web, "1"))
				release := b.acquire(web)
				b.want(web, holding(small))
				b.wantChanges(web, 1)
				others := b.crowd(10_000)
				large := b.putMap(configMap(web, strings.Repeat("x", 100_000)))
				b.wantCrowded(holding(small))
				b.wantChanges(web, 1)
				end(b, others)
				pass(longestRest)
				switch name {
				case "room is made":
					b.want(web, holding(large))
				case "it is deleted":
					b.want(web, known{Synced: true})
				default:
					b.want(web, known{Synced: true, Found: true, UID: string(small.UID), Version: b.known(web).Version, Data: map[string]string{"k": "less"}})
				}
				b.putMap(configMap(web, "2")) // It is watched again.
				b.settle()
				if got := b.known(web).Data["k"]; got != "2" {
					t.Errorf("content = %.20q, want the newest", got)
				}
				release()
				others.Close()
				if got := b.room.Used(); got != 0 {
					t.Errorf("Used() = %d after the last user, want 0", got)
				}
			})
		})
	}
}
