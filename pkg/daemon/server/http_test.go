package server_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/liveconfig-csi/liveconfig/pkg/daemon/server"
	"github.com/liveconfig-csi/liveconfig/pkg/expect"
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
	expect.NoError(t, err)
	return l
}

// TestServeHTTP also answers clients that connected before it served.
func TestServeHTTP(t *testing.T) {
	t.Parallel()
	l := listenHTTP(t)
	address := l.Addr().String()
	early, err := new(net.Dialer).DialContext(t.Context(), "tcp", address)
	expect.NoError(t, err)
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
	expect.NoError(t, err)
	expect.NoError(t, r.Write(c))
	response, err := http.ReadResponse(bufio.NewReader(c), r)
	expect.NoError(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	expect.NoError(t, err)
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

// TestLocalServesItsOwnHostOnly, by the address of the connection, and only requests that were sent to that host.
func TestLocalServesItsOwnHostOnly(t *testing.T) {
	t.Parallel()
	const here = "127.0.0.1:4711"
	tests := map[string]struct {
		from, host string
		header     http.Header
		code       int
	}{
		"loopback":                                   {here, "localhost:9090", nil, http.StatusOK},
		"another one of loopback":                    {"127.8.9.10:4711", "localhost:9090", nil, http.StatusOK},
		"loopback of IPv6":                           {"[::1]:4711", "localhost:9090", nil, http.StatusOK},
		"loopback of IPv4 by IPv6":                   {"[::ffff:127.0.0.1]:4711", "localhost:9090", nil, http.StatusOK},
		"a pod":                                      {"10.244.1.7:4711", "localhost:9090", nil, http.StatusForbidden},
		"a pod of IPv6":                              {"[fd00::7]:4711", "localhost:9090", nil, http.StatusForbidden},
		"a neighbour with a zone":                    {"[fe80::1%eth0]:4711", "localhost:9090", nil, http.StatusForbidden},
		"nobody":                                     {"", "localhost:9090", nil, http.StatusForbidden},
		"a name":                                     {"localhost:4711", "localhost:9090", nil, http.StatusForbidden},
		"an invalid address":                         {"127.0.0.1", "localhost:9090", nil, http.StatusForbidden},
		"to localhost without a port":                {here, "localhost", nil, http.StatusOK},
		"to 127.0.0.1":                               {here, "127.0.0.1:9090", nil, http.StatusOK},
		"to 127.0.0.1 without a port":                {here, "127.0.0.1", nil, http.StatusOK},
		"to ::1":                                     {here, "[::1]:9090", nil, http.StatusOK},
		"to ::1 without a port":                      {here, "[::1]", nil, http.StatusOK},
		"to a name of a web page's":                  {here, "evil.example:9090", nil, http.StatusForbidden},
		"to such a name without a port":              {here, "evil.example", nil, http.StatusForbidden},
		"to a name that looks like here":             {here, "localhost.evil.example:9090", nil, http.StatusForbidden},
		"to an address that looks so":                {here, "127.0.0.1.evil.example", nil, http.StatusForbidden},
		"to another address":                         {here, "10.244.1.7:9090", nil, http.StatusForbidden},
		"to nobody":                                  {here, "", nil, http.StatusForbidden},
		"for another one":                            {here, "localhost", http.Header{"X-Forwarded-For": {"10.244.1.7"}}, http.StatusForbidden},
		"for a forwarded local address":              {here, "localhost", http.Header{"X-Forwarded-For": {"127.0.0.1"}}, http.StatusForbidden},
		"for a forwarded address after an empty one": {here, "localhost", http.Header{"X-Forwarded-For": {"", "10.244.1.7"}}, http.StatusForbidden},
		"for another one by the standard":            {here, "localhost", http.Header{"Forwarded": {"for=10.244.1.7"}}, http.StatusForbidden},
		"with a host among the headers":              {"10.244.1.7:4711", "localhost", http.Header{"Host": {"localhost"}}, http.StatusForbidden},
		"with another real address":                  {"10.244.1.7:4711", "localhost", http.Header{"X-Real-Ip": {"127.0.0.1"}}, http.StatusForbidden},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			asked := false
			handler := server.Local(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked = true }))
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/statusz", http.NoBody)
			r.RemoteAddr, r.Host = tc.from, tc.host
			maps.Copy(r.Header, tc.header)
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, r)
			if w.Code != tc.code || asked != (tc.code == http.StatusOK) {
				t.Errorf("answer = %d, asked = %t, want %d", w.Code, asked, tc.code)
			}
		})
	}
}
