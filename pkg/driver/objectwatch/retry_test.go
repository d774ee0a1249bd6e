package objectwatch

import (
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"
)

// TestHowLongItIsUntilTheNextTry: from a fifth of a second, doubling, to five, each with up to as
// much again. After quiet times it starts over, and not before.
func TestHowLongItIsUntilTheNextTry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var r retry
		next := func(name string, least time.Duration) time.Duration {
			t.Helper()
			d := r.next()
			if d < least || d > 2*least {
				t.Errorf("%s: %s, want %s to %s", name, d, least, 2*least)
			}
			<-time.After(d)
			return d
		}
		for range 3 {
			for n := range 8 {
				next("in trouble", min(firstRequestRetry<<n, longestRequestRetry))
			}
			<-time.After(2 * time.Minute)
			next("not quiet for long enough", 5*time.Second)
			<-time.After(2*time.Minute + time.Second)
		}
		differ := map[time.Duration]bool{}
		for range 20 {
			r = retry{}
			differ[next("at first", firstRequestRetry)] = true
		}
		if len(differ) < 15 {
			t.Errorf("only %d of 20 differ, want them spread", len(differ))
		}
	})
}

// TestHowConnectionsEnd, as far as nothing else is wrong. The texts are those of the library,
// which has no names for them.
func TestHowConnectionsEnd(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"http2: client connection lost":                       true,
		"http2: server sent GOAWAY and closed the connection": true,
		"read tcp: connection reset by peer":                  true,
		"connection refused":                                  false,
	} {
		if got := isHangup(errors.New(text)); got != want {
			t.Errorf("%q is how a connection ends: %t, want %t", text, got, want)
		}
	}
	if !isHangup(io.EOF) || !isHangup(io.ErrUnexpectedEOF) {
		t.Error("the end of a stream does not count as the end of a connection")
	}
}
