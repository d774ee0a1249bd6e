package access_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/api/identity"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/access"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/state"
	"github.com/liveconfig-csi/liveconfig/pkg/expect"
)

// server is an API server that records the tokens and the connections of requests.
type server struct {
	*httptest.Server

	mu          sync.Mutex // Guards the fields below.
	asked       []string   // The token of each request.
	connections map[string]bool
	refused     func(token string) (status int) // The status for a token; zero for the truth.
}

func newServer(t *testing.T) *server {
	t.Helper()
	s := &server{connections: map[string]bool{}, refused: func(string) int { return 0 }}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(s.answer))
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

func (s *server) answer(w http.ResponseWriter, r *http.Request) {
	token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	s.mu.Lock()
	s.asked = append(s.asked, token)
	s.connections[r.RemoteAddr] = true
	status := s.refused(token)
	s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	if status != 0 {
		w.WriteHeader(status)
		_, _ = fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","code":%d,"message":"no"}%4000s`, status, "")
		return
	}
	_, _ = w.Write([]byte(`{"kind":"ConfigMapList","apiVersion":"v1"}`))
}

// refuse sets the tokens that are answered with the status from now on.
func (s *server) refuse(status int, tokens ...string) {
	s.refuseBy(func(token string) int {
		if slices.Contains(tokens, token) {
			return status
		}
		return 0
	})
}

func (s *server) refuseBy(refused func(token string) (status int)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused = refused
}

// take returns the tokens of the requests since the last time.
func (s *server) take() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	asked := s.asked
	s.asked = nil
	return asked
}

// config holds credentials of the driver, which must never go out with a pod's requests.
func (s *server) config() *rest.Config {
	return &rest.Config{Host: s.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}, BearerToken: "the-driver's", QPS: -1}
}

// fixture is a vault with its files, and an authority over it.
type fixture struct {
	*testing.T
	server *server
	files  *state.Files
	vault  *access.Vault
	all    *access.Authority
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	g := &fixture{T: t, server: newServer(t)}
	var err error
	if g.files, err = state.NewFiles(t.TempDir()); err != nil {
		t.Fatal(err)
	}
	g.restart()
	return g
}

// restart makes what the next run of the driver has.
func (g *fixture) restart() {
	g.Helper()
	g.vault = access.NewVault(g.files)
	expect.NoError(g.T, g.vault.Load())
	var err error
	g.all, err = access.New(access.Config{
		Types: types(g.T), Server: g.server.config(), Vault: g.vault,
		Readers: identity.Readers{ConfigMaps: identity.ByPod, Secrets: identity.ByPod},
	})
	expect.NoError(g.T, err)
}

func (g *fixture) store(volumeID string, p api.Pod, value string, expires time.Time) {
	g.Helper()
	expect.NoError(g.T, g.vault.Store(volumeID, p, access.NewToken(value, expires)))
}

func list(ctx context.Context, client rest.Interface, namespace string) error {
	return client.Get().Namespace(namespace).Resource("configmaps").Do(ctx).Into(&corev1.ConfigMapList{})
}

// read makes one request as the pod and returns with which tokens it came, in their order.
func (g *fixture) read(p api.Pod) (tokens []string, err error) {
	g.Helper()
	client, err := g.all.Client(identity.Of(p))
	expect.NoError(g.T, err)
	err = list(g.Context(), client, "default")
	return g.server.take(), err
}

// wantTokens makes one request as the pod, which succeeds with the last of the tokens.
func (g *fixture) wantTokens(p api.Pod, want ...string) {
	g.Helper()
	got, err := g.read(p)
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		g.Errorf("asked with other tokens: %v (-want +got):\n%s", err, diff)
	}
}
