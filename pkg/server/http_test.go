package server_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/liveconfig-csi/liveconfig/pkg/server"
)

func TestHealth(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		err  error
		code int
		body string
	}{
		"well":   {nil, http.StatusOK, "ok\n"},
		"unwell": {errors.New("the volumes are still being taken over"), http.StatusServiceUnavailable, "the volumes are still being taken over\n"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := httptest.NewRecorder()
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/healthz", http.NoBody)
			server.Health(func() error { return tc.err }).ServeHTTP(w, r)
			if w.Code != tc.code || w.Body.String() != tc.body {
				t.Errorf("answer = %d %q, want %d %q", w.Code, w.Body, tc.code, tc.body)
			}
		})
	}
}

// freeAddress returns a loopback address that nobody listens on right now.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func TestServeHTTP(t *testing.T) {
	t.Parallel()
	address := freeAddress(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	served := make(chan error, 1)
	handler := server.Health(func() error { return nil })
	go func() { served <- server.ServeHTTP(ctx, address, handler) }()
	body, err := get(t, address, served)
	if body != "ok\n" || err != nil {
		t.Errorf("GET = %q, %v, want ok", body, err)
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

// get returns what is served at the address, asking until somebody listens or serving has failed.
func get(t *testing.T, address string, served <-chan error) (string, error) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for {
		select {
		case err := <-served:
			return "", err
		default:
		}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+"/", http.NoBody)
		if err != nil {
			return "", err
		}
		response, err := client.Do(r)
		if err != nil {
			continue
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		return string(body), err
	}
}

func TestServeHTTPThatIsStoppedBeforeItBegins(t *testing.T) {
	t.Parallel()
	for range 20 {
		ctx, stop := context.WithCancel(t.Context())
		served := make(chan error, 1)
		go func() { served <- server.ServeHTTP(ctx, "127.0.0.1:0", http.NotFoundHandler()) }()
		stop()
		if err := <-served; err != nil && !errors.Is(err, context.Canceled) {
			t.Fatalf("ServeHTTP = %v, want nil", err)
		}
	}
}

func TestServeHTTPOnAnAddressThatIsTaken(t *testing.T) {
	t.Parallel()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	address := l.Addr().String()
	err = server.ServeHTTP(t.Context(), address, http.NotFoundHandler())
	if err == nil || !strings.HasPrefix(err.Error(), "listen on "+address+" for HTTP: ") || !strings.Contains(err.Error(), "in use") {
		t.Errorf("ServeHTTP = %v, want it to say that %s is in use", err, address)
	}
}
