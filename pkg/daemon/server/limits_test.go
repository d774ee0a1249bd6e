package server

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
)

// soon is how long something may take that takes milliseconds.
const soon = 10 * time.Second

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// serving serves within the limits until the end of the test, and returns where.
func serving(t *testing.T, handler http.Handler, m limits) (address string) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- serveHTTP(ctx, l, handler, m) }()
	t.Cleanup(func() {
		stop()
		if err := <-served; err != nil {
			t.Errorf("serveHTTP = %v, want nil", err)
		}
	})
	return l.Addr().String()
}

// connect returns a connection on which nobody waits for longer than soon.
func connect(t *testing.T, address string) net.Conn {
	t.Helper()
	return connectFrom(t, "127.0.0.1", address)
}

// wantAnswer makes a request and keeps the connection.
func wantAnswer(t *testing.T, c net.Conn) {
	t.Helper()
	write(t, c, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
	wantRead(t, c)
}

// wantRead reads the answer to a request that was made, and keeps the connection.
func wantRead(t *testing.T, c net.Conn) {
	t.Helper()
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatalf("the answer: %v, want ok", err)
	}
	defer r.Body.Close()
	if body, err := io.ReadAll(r.Body); string(body) != "ok\n" || err != nil {
		t.Errorf("the answer: %q, %v, want ok", body, err)
	}
}

// wantEnded checks that the server ends the connection, and returns what it says before.
func wantEnded(t *testing.T, c net.Conn) string {
	t.Helper()
	said, err := io.ReadAll(c)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the connection stays open after %q, want it ended", said)
	}
	return string(said)
}

func well() http.Handler { return Health(func() error { return nil }) }

// TestAHeaderWithoutAnEnd is not read on and on: what is read of it is held.
func TestAHeaderWithoutAnEnd(t *testing.T) {
	t.Parallel()
	m := defaultLimits()
	m.timeout = time.Hour
	address := serving(t, well(), m)
	c := connect(t, address)
	sent, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: localhost\r\nX-Large: "+strings.Repeat("x", 1<<20))
	said := wantEnded(t, c)
	if err == nil && !strings.Contains(said, "431") {
		t.Errorf("after %d bytes of a header: %q, want it refused", sent, said)
	}
	wantAnswer(t, connect(t, address))
}

// TestConnectionsThatBringNothingEnd, each after the time that it has.
func TestConnectionsThatBringNothingEnd(t *testing.T) {
	t.Parallel()
	m := defaultLimits()
	m.timeout = 50 * time.Millisecond
	tests := map[string]string{
		"nothing at all":            "",
		"nothing after an answer":   "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"a header that is cut off":  "GET / HTTP/1.1\r\nHost: loc",
		"a body that does not come": "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n",
	}
	for name, text := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := connect(t, serving(t, well(), m))
			write(t, c, text)
			wantEnded(t, c)
		})
	}
}

func write(t *testing.T, c net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		t.Error(err)
	}
}

// TestAnAnswerThatNobodyReads is given up.
func TestAnAnswerThatNobodyReads(t *testing.T) {
	t.Parallel()
	m := defaultLimits()
	m.timeout = 50 * time.Millisecond
	gaveUp := make(chan struct{})
	address := serving(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		defer close(gaveUp)
		for {
			if _, err := w.Write(make([]byte, 1<<20)); err != nil {
				return
			}
		}
	}), m)
	write(t, connect(t, address), "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
	select {
	case <-gaveUp:
	case <-time.After(soon):
		t.Error("the answer is still being written, want it given up")
	}
}

// TestTheOldestOfAClientGoes, and the new one is served. Those between stay.
func TestTheOldestOfAClientGoes(t *testing.T) {
	t.Parallel()
	m := limits{timeout: time.Hour, headerBytes: 8 << 10, mostConnections: 3, mostOfOne: 10}
	address := serving(t, well(), m)
	var conns []net.Conn
	for range m.mostConnections {
		conns = append(conns, connect(t, address))
	}
	for i := range 2 {
		c := connect(t, address)
		wantAnswer(t, c)
		wantEnded(t, conns[i])
		conns = append(conns, c)
	}
	for _, c := range conns[2:] {
		wantAnswer(t, c)
	}
}
