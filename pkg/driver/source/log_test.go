package source_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/liveconfig-csi/liveconfig/pkg/api/identity"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/objectwatch/fakeserver"
)

// hush is content that must not be logged.
const hush = "hush-hush"

// logged returns the messages that were logged since the last time, with their errors. None may
// have a byte of content.
func (b *bench) logged(seen *int) []string {
	b.t.Helper()
	b.settle()
	if strings.Contains(b.log.String(), hush) {
		b.t.Errorf("the log has content in it:\n%s", b.log.String())
	}
	var lines []string
	entries := b.log.Data()
	for _, e := range entries[*seen:] {
		line := e.Message
		if e.Err != nil {
			line += ": " + fakeserver.TextOf(e.Err)
		}
		lines = append(lines, line)
	}
	*seen = len(entries)
	return lines
}

// TestEachSortOfTroubleIsLoggedOnce, however often it happens, and its end.
func TestEachSortOfTroubleIsLoggedOnce(t *testing.T) {
	bubble(t, func(b *bench) {
		seen := 0
		want := func(want ...string) {
			t.Helper()
			if diff := cmp.Diff(want, b.logged(&seen)); diff != "" {
				t.Errorf("log (-want +got):\n%s", diff)
			}
		}
		const trouble, over = "The driver cannot follow an object: ", "The driver follows an object again"
		b.putMap(configMap(web, hush))
		defer b.acquire(web)()
		want()
		for range 2 {
			for _, err := range []error{unavailable(), forbidden(), refused()} {
				b.Answer(err, err)
				b.HangUp()
				pass(10 * time.Minute)
				want(trouble + err.Error())
			}
			b.Answer(nil, nil)
			pass(longestSilence)
			want(over)
			pass(10 * time.Minute)
			b.HangUp()
			want()
		}

		others := b.crowd(10_000)
		b.putMap(configMap(web, strings.Repeat(hush, 10_000)))
		b.settle()
		want(trouble + b.Get(b.key(web)).Err.Error())
		pass(10 * time.Minute)
		want()
		others.Close()
		pass(longestRest)
		want(over)
		b.putMap(immutable(web, hush))
		want()
	})
}

// TestTroubleThatPollingEndsIsOver, and so is that of an immutable object.
func TestTroubleThatPollingEndsIsOver(t *testing.T) {
	bubbleOf(t, identity.Of(runner), func(b *bench) {
		seen := 0
		b.putMap(configMap(web, hush))
		b.Answer(forbiddenList(), forbidden())
		defer b.acquire(web)()
		pass(time.Minute)
		b.AnswerGets(nil)
		pass(time.Hour)
		want := []string{"The driver cannot follow an object: " + forbiddenList().Error(), "The driver follows an object again"}
		if diff := cmp.Diff(want, b.logged(&seen)); diff != "" {
			t.Errorf("log (-want +got):\n%s", diff)
		}
	})
}
