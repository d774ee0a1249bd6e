package server_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/liveconfig-csi/liveconfig/pkg/daemon/server"
)

// TestHealth: the answer is that of the moment.
func TestHealth(t *testing.T) {
	t.Parallel()
	var problem error
	handler := server.Health(func() error { return problem })
	for _, tc := range []struct {
		err  error
		code int
		body string
	}{
		{errors.New("the volumes are still being taken over"), http.StatusServiceUnavailable, "the volumes are still being taken over\n"},
		{nil, http.StatusOK, "ok\n"},
	} {
		problem = tc.err
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/healthz", http.NoBody))
		if w.Code != tc.code || w.Body.String() != tc.body {
			t.Errorf("answer = %d %q, want %d %q", w.Code, w.Body, tc.code, tc.body)
		}
	}
}

func listenHTTP(t *testing.T) net.Listener {
	t.Helper()
	l, err := server.ListenHTTP(t.Context(), "127.0.0.1:0")
	must(t, err)
	return l
}

// TestServeHTTP also answers clients that connected before it served.
func TestServeHTTP(t *testing.T) {
	t.Parallel()
	l := listenHTTP(t)
	address := l.Addr().String()
	early, err := new(net.Dialer).DialContext(t.Context(), "tcp", address)
	must(t, err)
	defer early.Close()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	served := make(chan error, 1)
	handler := server.Health(func() error { return nil })
	go func() { served <- server.ServeHTTP(ctx, l, handler) }()
	if body := answerOn(t, early); body != "ok\n" {
		t.Errorf("GET = %q, want ok", body)
	}
	stop()
	if err := <-served; err != nil {
		t.Errorf("ServeHTTP = %v, want nil", err)
	}
	if conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", address); err == nil {
		_ = conn.Close()
		t.Error("somebody listens after ServeHTTP has returned")
	}
}

func answerOn(t *testing.T, c net.Conn) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/", http.NoBody)
	must(t, err)
	must(t, r.Write(c))
	response, err := http.ReadResponse(bufio.NewReader(c), r)
	must(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	must(t, err)
	return string(body)
}

func TestServeHTTPThatIsStoppedBeforeItBegins(t *testing.T) {
	t.Parallel()
	for range 20 {
		ctx, stop := context.WithCancel(t.Context())
		served := make(chan error, 1)
		l := listenHTTP(t)
		go func() { served <- server.ServeHTTP(ctx, l, http.NotFoundHandler()) }()
		stop()
		if err := <-served; err != nil {
			t.Fatalf("ServeHTTP = %v, want nil", err)
		}
	}
}

func TestListenHTTPOnAnAddressThatIsTaken(t *testing.T) {
	t.Parallel()
	l := listenHTTP(t)
	defer l.Close()
	address := l.Addr().String()
	_, err := server.ListenHTTP(t.Context(), address)
	if err == nil || !strings.HasPrefix(err.Error(), "listen on "+address+" for HTTP: ") || !strings.Contains(err.Error(), "in use") {
		t.Errorf("ListenHTTP = %v, want it to say that %s is in use", err, address)
	}
}
