package identity_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/identity"
	"github.com/liveconfig-csi/liveconfig/pkg/state"
)

// server is an API server that remembers who asks it, and over how many connections.
type server struct {
	*httptest.Server

	mu          sync.Mutex // Guards the fields below.
	asked       []string
	connections map[string]bool
}

func newServer(t *testing.T) *server {
	t.Helper()
	s := &server{connections: map[string]bool{}}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.asked = append(s.asked, r.Header.Get("Authorization"))
		s.connections[r.RemoteAddr] = true
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"kind": "ConfigMapList", "apiVersion": "v1"})
	}))
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// config holds credentials of the driver, which must never go out with a pod's requests.
func (s *server) config() *rest.Config {
	return &rest.Config{Host: s.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}, BearerToken: "the-driver's"}
}

// ground is a vault with its files, and an authority over it.
type ground struct {
	*testing.T
	server *server
	files  *state.Files
	vault  *identity.Vault
	all    *identity.Authority
}

func newGround(t *testing.T) *ground {
	t.Helper()
	g := &ground{T: t, server: newServer(t)}
	var err error
	if g.files, err = state.NewFiles(t.TempDir()); err != nil {
		t.Fatal(err)
	}
	g.restart()
	return g
}

// restart is what the next run of the driver has.
func (g *ground) restart() {
	g.Helper()
	g.vault = identity.NewVault(g.files)
	if err := g.vault.Load(); err != nil {
		g.Fatal(err)
	}
	var err error
	g.all, err = identity.New(identity.Config{
		Driver: fake.NewClientset().CoreV1(), Server: g.server.config(), Vault: g.vault,
		ConfigMaps: identity.ByPod, Secrets: identity.ByPod,
	})
	if err != nil {
		g.Fatal(err)
	}
}

func (g *ground) keep(volumeID string, p api.Pod, value string, expires time.Time) {
	g.Helper()
	if err := g.vault.Keep(volumeID, p, identity.NewToken(value, expires)); err != nil {
		g.Fatal(err)
	}
}

// read makes one request as the pod and returns with which token it came; an empty one when none was made.
func (g *ground) read(p api.Pod) (token string, err error) {
	g.Helper()
	client, err := g.all.Client(identity.Of(p))
	if err != nil {
		g.Fatal(err)
	}
	before := len(g.server.asked)
	_, err = client.ConfigMaps("default").List(g.Context(), metav1.ListOptions{})
	if len(g.server.asked) == before {
		return "", err
	}
	return strings.TrimPrefix(g.server.asked[before], "Bearer "), err
}

func (g *ground) wantToken(p api.Pod, want string) {
	g.Helper()
	if got, err := g.read(p); got != want || err != nil {
		g.Errorf("asked with token %q, %v; want %q", got, err, want)
	}
}

// TestTheTokenThatLivesLongestCounts, of those that the volumes of one service account came with.
func TestTheTokenThatLivesLongestCounts(t *testing.T) {
	t.Parallel()
	g := newGround(t)
	g.keep("a", pod(), "first", tomorrow)
	g.keep("b", pod(), "longer", tomorrow.Add(time.Hour))
	g.keep("c", api.Pod{Namespace: "default", ServiceAccount: "other"}, "another's", tomorrow.Add(2*time.Hour))
	g.wantToken(pod(), "longer")
	if err := g.vault.Drop("b"); err != nil { // Its pod is gone, and the token dead.
		t.Fatal(err)
	}
	g.wantToken(pod(), "first")
	g.keep("a", pod(), "refreshed", tomorrow.Add(time.Minute))
	g.keep("a", pod(), "", time.Time{}) // A call without one takes nothing away.
	g.wantToken(pod(), "refreshed")
}

func TestAfterARestartReadingResumes(t *testing.T) {
	t.Parallel()
	g := newGround(t)
	g.keep("a", pod(), "kept", tomorrow)
	g.keep("b", api.Pod{Namespace: "default", ServiceAccount: "other"}, "gone", tomorrow)
	g.restart()
	g.wantToken(pod(), "kept")
	if err := g.vault.Retain(func(id string) bool { return id == "a" }); err != nil {
		t.Fatal(err)
	}
	g.restart()
	g.wantToken(pod(), "kept")
	if got, err := g.read(api.Pod{Namespace: "default", ServiceAccount: "other"}); !errors.Is(err, identity.ErrNoToken) {
		t.Errorf("asked with token %q, %v; want %v", got, err, identity.ErrNoToken)
	}
}

func TestWithoutAValidTokenNothingIsAsked(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(g *ground){
		"none was given":  func(*ground) {},
		"it has expired":  func(g *ground) { g.keep("a", pod(), "old", time.Now().Add(-time.Second)) },
		"it was dropped":  func(g *ground) { g.keep("a", pod(), "x", tomorrow); _ = g.vault.Drop("a") },
		"it is another's": func(g *ground) { g.keep("a", api.Pod{Namespace: "x", ServiceAccount: "runner"}, "x", tomorrow) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGround(t)
			prepare(g)
			got, err := g.read(pod())
			if got != "" || !errors.Is(err, identity.ErrNoToken) {
				t.Errorf("asked with token %q, %v; want %v", got, err, identity.ErrNoToken)
			}
		})
	}
}

func TestAllPodsShareOneConnection(t *testing.T) {
	t.Parallel()
	g := newGround(t)
	for _, name := range []string{"a", "b", "c"} {
		p := api.Pod{Namespace: "default", ServiceAccount: name}
		g.keep(name, p, name+"'s", tomorrow)
		g.wantToken(p, name+"'s")
	}
	if got := len(g.server.connections); got != 1 {
		t.Errorf("%d connections, want 1", got)
	}
}

// TestATokenThatCannotBeWrittenIsHeld: this run of the driver needs it.
func TestATokenThatCannotBeWrittenIsHeld(t *testing.T) {
	t.Parallel()
	g := newGround(t)
	if err := g.vault.Keep("a\xff", pod(), identity.NewToken("hunter2", tomorrow)); err != nil {
		t.Fatal(err)
	}
	g.vault = identity.NewVault(failing{})
	if err := g.vault.Keep("a", pod(), identity.NewToken("hunter2", tomorrow)); err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("Keep = %v, want an error without the token", err)
	}
	if err := g.vault.Keep("a", pod(), identity.NewToken("hunter2", tomorrow)); err != nil {
		t.Errorf("Keep of what is held = %v, want nil", err)
	}
}

// failing are files on a disk that is full.
type failing struct{}

var errFull = errors.New("no space left on device")

func (failing) Put(string, []byte) error { return errFull }
func (failing) Delete(string) error      { return nil }
func (failing) List() ([][]byte, error)  { return [][]byte{[]byte(`{"token": "hunter2`)}, errFull }

func TestLoadReportsWhatItCannotRead(t *testing.T) {
	t.Parallel()
	err := identity.NewVault(failing{}).Load()
	if !errors.Is(err, errFull) || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("Load = %v, want %v and nothing of a token", err, errFull)
	}
}

func TestGrantIsForTheOneSource(t *testing.T) {
	t.Parallel()
	want := `apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: read-secret-tls, namespace: certs}
rules:
- {apiGroups: [""], resources: [secrets], resourceNames: [tls], verbs: [get, list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: read-secret-tls, namespace: certs}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: read-secret-tls}
subjects:
- {kind: ServiceAccount, name: runner, namespace: default}
`
	ref := api.Ref{Kind: api.Secret, Namespace: "certs", Name: "tls"}
	if got := identity.Grant(identity.Of(pod()), ref); got != want {
		t.Errorf("Grant = %s, want %s", got, want)
	}
	if got := identity.Grant(identity.Driver(), ref); got != "" {
		t.Errorf("Grant for the driver = %s, want none", got)
	}
}
