package server

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/expect"
)

// soon is how long something may take that takes milliseconds.
const soon = 10 * time.Second

// serving serves within the limits until the end of the test, and returns where.
func serving(t *testing.T, handler http.Handler, m limits) (address string) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	expect.NoError(t, err)
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

// wantEnded checks that the server ends the connection, and returns what it sends before.
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

// TestTheOldestOfAClientGoes, and the new one is served. Those between stay. No address takes all the connections that there
// are, also where nobody else wants them.
func TestTheOldestOfAClientGoes(t *testing.T) {
	t.Parallel()
	for name, m := range map[string]limits{
		"of all connections": {mostConnections: 3, mostOfOne: 10}, "of its share": {mostConnections: 10, mostOfOne: 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m.timeout, m.headerBytes = time.Hour, 8<<10
			address := serving(t, well(), m)
			conns := []net.Conn{connect(t, address), connect(t, address), connect(t, address)}
			for i := range 2 {
				c := connect(t, address)
				wantAnswer(t, c)
				wantEnded(t, conns[i])
				conns = append(conns, c)
			}
			for _, c := range conns[2:] {
				wantAnswer(t, c)
			}
		})
	}
}

// flood is how many connections a client makes that means no good: several times as many as the server holds.
const flood = 500

// connectFrom is connect from another address of this machine, as another pod would.
func connectFrom(t *testing.T, local, address string) net.Conn {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(local)}}
	c, err := d.DialContext(t.Context(), "tcp", address)
	expect.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() }) // Most are closed by the server.
	expect.NoError(t, c.SetDeadline(time.Now().Add(soon)))
	return c
}

// TestAFloodFromOnePodLosesNoProbe: the kubelet has connected and not asked yet, or waits for its answer, or has asked and will
// ask again, while another address makes hundreds of connections, some with a request and some without.
func TestAFloodFromOnePodLosesNoProbe(t *testing.T) {
	t.Parallel()
	asked, answer := make(chan struct{}), make(chan struct{})
	address := serving(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			close(asked)
			<-answer
		}
		well().ServeHTTP(w, r)
	}), defaultLimits())
	silent, slow, keeps := connect(t, address), connect(t, address), connect(t, address)
	wantAnswer(t, keeps)
	write(t, slow, "GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\n")
	<-asked

	var last net.Conn
	for i := range flood {
		last = connectFrom(t, "127.0.0.2", address)
		if i%2 == 0 {
			write(t, last, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
		}
	}
	wantAnswer(t, connect(t, address))
	wantAnswer(t, silent)
	wantAnswer(t, keeps)
	close(answer)
	wantRead(t, slow)
	wantAnswer(t, connectFrom(t, "127.0.0.2", address)) // The newest of the flood is served as well.
}

// conn is a connection that is named, and notes that it is closed.
type conn struct {
	net.Conn

	name, from string
	isClosed   bool
}

// RemoteAddr is [net.Conn].
func (c *conn) RemoteAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(c.from), 1))
}

// Close is [net.Conn].
func (c *conn) Close() error {
	c.isClosed = true
	return nil
}

// TestWhichConnectionGoes has connections come, and wants to know which are closed. A connection is written as name@address;
// -name@ is one that leaves.
func TestWhichConnectionGoes(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		most, mostOfOne int
		come            string
		want            string
	}{
		"nobody, while there is room":             {3, 3, "a@10.0.0.1 b@10.0.0.1 c@10.0.0.2", ""},
		"nobody, after somebody has left":         {2, 2, "a@10.0.0.1 b@10.0.0.2 -b@ c@10.0.0.3", ""},
		"the oldest of one that has enough":       {9, 2, "a@10.0.0.1 b@10.0.0.2 c@10.0.0.2 d@10.0.0.2 e@10.0.0.2", "b c"},
		"the oldest of the one with most":         {4, 9, "a@10.0.0.1 b@10.0.0.2 c@10.0.0.2 d@10.0.0.3 e@10.0.0.4", "b"},
		"the oldest of all clients that have one": {2, 9, "a@10.0.0.1 b@10.0.0.2 c@10.0.0.3", "a"},
		"an IPv4 address has two forms":           {9, 2, "a@10.0.0.1 b@::ffff:10.0.0.1 c@10.0.0.1", "a"},
		"IPv4 neighbors are two clients":          {9, 1, "a@10.0.0.1 b@10.0.0.2", ""},
		"one of a /64 with many addresses":        {9, 2, "a@fd00:1::1 b@fd00:2::1 c@fd00:2::2 d@fd00:2::3", "b"},
		"the kubelet's /64 is the flood's":        {9, 4, "probe@fd00::1 b@fd00::2 c@fd00::2 d@fd00::2 e@fd00::2 f@fd00::2", "b c"},
		"the same, with other clients":            {5, 4, "probe@fd00::1 b@fd00:1::1 c@fd00::2 d@fd00::2 e@fd00:1::1 f@fd00::2", "c"},
		"a zone makes no other client":            {9, 1, "a@fe80::1%eth0 b@fe80::1%eth1", "a"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newConnLimiter(test.most, test.mostOfOne)
			conns := map[string]*conn{}
			for text := range strings.FieldsSeq(test.come) {
				name, from, _ := strings.Cut(text, "@")
				if left, leaves := strings.CutPrefix(name, "-"); leaves {
					for _, state := range []http.ConnState{http.StateActive, http.StateIdle, http.StateClosed} {
						l.note(conns[left], state)
					}
					continue
				}
				conns[name] = &conn{name: name, from: from}
				l.note(conns[name], http.StateNew)
			}
			var closed []string
			for name, c := range conns {
				if c.isClosed {
					closed = append(closed, name)
				}
			}
			slices.Sort(closed)
			if got := strings.Join(closed, " "); got != test.want {
				t.Errorf("closed: %q, want %q", got, test.want)
			}
		})
	}
}
