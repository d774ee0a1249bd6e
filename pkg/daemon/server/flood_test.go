package server

import (
	"net"
	"net/http"
	"testing"
	"time"
)

// flood is how many connections a client makes that means no good: several times as many as the server holds.
const flood = 500

// connectFrom is connect from another address of this machine, as another pod would.
func connectFrom(t *testing.T, local, address string) net.Conn {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(local)}}
	c, err := d.DialContext(t.Context(), "tcp", address)
	must(t, err)
	t.Cleanup(func() { _ = c.Close() }) // Most are closed by the server.
	must(t, c.SetDeadline(time.Now().Add(soon)))
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
