package server_test

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/liveconfig-csi/liveconfig/pkg/daemon/server"
)

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
