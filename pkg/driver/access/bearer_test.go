package access

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/api/identity"
)

// gate answers every request with its status, and fails the test when a body is still open that
// belongs to an earlier one.
type gate struct {
	t      *testing.T
	status int
	took   time.Duration // How long an answer takes.
	bodies []*body
}

type body struct {
	io.Reader
	isClosed bool
}

func (b *body) Close() error {
	b.isClosed = true
	return nil
}

func (g *gate) RoundTrip(r *http.Request) (*http.Response, error) {
	for i, b := range g.bodies {
		if !b.isClosed {
			g.t.Errorf("the body of answer %d is open while the next one is asked for", i)
		}
	}
	b := &body{Reader: strings.NewReader("an answer")}
	g.bodies = append(g.bodies, b)
	time.Sleep(g.took) //nolint:forbidigo // It takes no time in a synctest bubble.
	return &http.Response{StatusCode: g.status, Body: b, Request: r}, nil
}

// noFiles keep nothing.
type noFiles struct{}

func (noFiles) Put(string, []byte) error { return nil }
func (noFiles) Delete(string) error      { return nil }
func (noFiles) Has(string) bool          { return true }
func (noFiles) List() ([][]byte, error)  { return nil, nil }

// newBearer returns one whose vault holds a token for each of the lifetimes.
func newBearer(t *testing.T, base http.RoundTripper, lifetimes ...time.Duration) (*bearer, *http.Request) {
	t.Helper()
	p := api.Pod{Namespace: "default", ServiceAccount: "runner"}
	vault := NewVault(noFiles{})
	for _, lifetime := range lifetimes {
		if err := vault.Store(lifetime.String(), p, NewToken(lifetime.String(), time.Now().Add(lifetime))); err != nil {
			t.Fatal(err)
		}
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://localhost/api", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	return &bearer{vault: vault, identity: identity.Of(p), base: base}, request
}

// TestBodiesOfRefusalsAreClosed: an open one would hold its connection or stream for ever. That
// of the answer is the caller's, with all that is in it.
func TestBodiesOfRefusalsAreClosed(t *testing.T) {
	t.Parallel()
	for _, status := range []int{http.StatusUnauthorized, http.StatusOK} {
		t.Run(http.StatusText(status), func(t *testing.T) {
			t.Parallel()
			g := &gate{t: t, status: status}
			b, request := newBearer(t, g, time.Hour, 2*time.Hour, 3*time.Hour)
			response, err := b.RoundTrip(request)
			if err != nil || response.StatusCode != status {
				t.Fatalf("RoundTrip = %v, %v, want status %d", response, err, status)
			}
			if last := g.bodies[len(g.bodies)-1]; last.isClosed || response.Body != last {
				t.Error("the body of the answer is closed, or another's")
			}
			text, err := io.ReadAll(response.Body)
			if string(text) != "an answer" || err != nil {
				t.Errorf("the answer = %q, %v, want the server's", text, err)
			}
			if err := response.Body.Close(); err != nil {
				t.Error(err)
			}
			if got := request.Header.Get("Authorization"); got != "" {
				t.Errorf("the caller's request has got a header: %q", got)
			}
		})
	}
}

// TestWhatExpiresWhileItIsRefused is tried too, once: then the answer is an error, and no body is
// left open.
func TestWhatExpiresWhileItIsRefused(t *testing.T) {
	t.Parallel()
	for name, took := range map[string]time.Duration{"the other token": 2 * time.Minute, "both tokens": 4 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				g := &gate{t: t, status: http.StatusUnauthorized, took: took}
				b, request := newBearer(t, g, time.Minute, 3*time.Minute)
				for range 2 {
					response, err := b.RoundTrip(request) //nolint:bodyclose // There is no body.
					if response != nil || !errors.Is(err, ErrNoToken) || len(g.bodies) != 2 {
						t.Fatalf("RoundTrip = %v, %v after %d requests, want %v after one with each token", response, err, len(g.bodies), ErrNoToken)
					}
					time.Sleep(time.Hour) //nolint:forbidigo // It takes no time.
				}
				for i, body := range g.bodies {
					if !body.isClosed {
						t.Errorf("the body of answer %d is open", i)
					}
				}
			})
		})
	}
}
