package server_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/liveconfig-csi/liveconfig/pkg/server"
)

// TestLocalServesItsOwnHostOnly, by the address of the connection and not by what a client says.
func TestLocalServesItsOwnHostOnly(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		from string
		code int
	}{
		"loopback":                      {"127.0.0.1:4711", http.StatusOK},
		"another one of loopback":       {"127.8.9.10:4711", http.StatusOK},
		"loopback of IPv6":              {"[::1]:4711", http.StatusOK},
		"loopback of IPv4 by IPv6":      {"[::ffff:127.0.0.1]:4711", http.StatusOK},
		"a pod":                         {"10.244.1.7:4711", http.StatusForbidden},
		"a pod of IPv6":                 {"[fd00::7]:4711", http.StatusForbidden},
		"a neighbour with a zone":       {"[fe80::1%eth0]:4711", http.StatusForbidden},
		"nobody":                        {"", http.StatusForbidden},
		"a name":                        {"localhost:4711", http.StatusForbidden},
		"an address that is no address": {"127.0.0.1", http.StatusForbidden},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			asked := false
			handler := server.Local(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked = true }))
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/statusz", http.NoBody)
			r.RemoteAddr = tc.from
			for _, header := range []string{"X-Forwarded-For", "X-Real-IP", "Forwarded", "Host"} {
				r.Header.Set(header, "127.0.0.1")
			}
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, r)
			if w.Code != tc.code || asked != (tc.code == http.StatusOK) {
				t.Errorf("answer = %d, asked = %t, want %d", w.Code, asked, tc.code)
			}
		})
	}
}

// TestHealthIsAskedEachTime: the answer is that of the moment.
func TestHealthIsAskedEachTime(t *testing.T) {
	t.Parallel()
	problem := errors.New("stuck")
	handler := server.Health(func() error { return problem })
	for _, want := range []int{http.StatusServiceUnavailable, http.StatusOK} {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/healthz", http.NoBody))
		if w.Code != want {
			t.Errorf("answer = %d, want %d", w.Code, want)
		}
		problem = nil
	}
}
