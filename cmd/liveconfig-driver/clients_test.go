package main

import (
	"encoding/base64"
	"encoding/pem"
	"errors"
	"flag"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/client-go/rest"

	"github.com/liveconfig-csi/liveconfig/pkg/driver/flowcontrol"
)

func TestNewClientsNeedACluster(t *testing.T) {
	t.Parallel()
	cfg := defaults()
	cfg.kubeconfig = t.TempDir() + "/none"
	_, _, err := newClients(cfg, flowcontrol.New(1))
	if err == nil || !strings.HasPrefix(err.Error(), "read how to reach the API server (see --kubeconfig): ") {
		t.Errorf("newClients = %v, want it to name the flag", err)
	}
}

// kubeconfig writes one for an API server, with a token, and returns its name.
func kubeconfig(t *testing.T, server *httptest.Server) string {
	t.Helper()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	name := filepath.Join(t.TempDir(), "kubeconfig")
	text := `{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}], ` +
		`clusters: [{name: c, cluster: {server: "` + server.URL + `", ` +
		`certificate-authority-data: ` + base64.StdEncoding.EncodeToString(ca) + `}}], users: [{name: u, user: {token: drivers}}]}`
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// asked is what an API server has seen: the connections, and the requests by path.
type asked struct {
	mu       sync.Mutex // Guards the fields below.
	from     map[string]bool
	requests map[string]http.Header
}

func (a *asked) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.from[r.RemoteAddr] = true
	a.requests[r.URL.Path] = r.Header
	w.WriteHeader(http.StatusNotFound)
}

// TestClientsShareAConnection, and the driver's credentials: a node has one connection to the API server for all that the
// driver asks on its own account.
func TestClientsShareAConnection(t *testing.T) {
	t.Parallel()
	seen := &asked{from: map[string]bool{}, requests: map[string]http.Header{}}
	server := httptest.NewUnstartedServer(seen)
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	cfg := defaults()
	cfg.kubeconfig = kubeconfig(t, server)
	apiServer, c, err := newClients(cfg, flowcontrol.New(1))
	if err != nil {
		t.Fatal(err)
	}
	if apiServer.Host != server.URL || apiServer.QPS >= 0 {
		t.Errorf("API server = %s with %g requests a second, want %s without a limit", apiServer.Host, apiServer.QPS, server.URL)
	}
	errOfGet := c.core.Get().Namespace("default").Resource("configmaps").Name("web").Do(t.Context()).Error()
	errOfReview := c.reviews.Post().Resource("subjectaccessreviews").Body(&authorizationv1.SubjectAccessReview{}).Do(t.Context()).Error()
	errOfRead := c.storage.Get().Resource("csidrivers").Name("csi.example.test").Do(t.Context()).Error()
	for path, err := range map[string]error{
		"/api/v1/namespaces/default/configmaps/web":           errOfGet,
		"/apis/authorization.k8s.io/v1/subjectaccessreviews":  errOfReview,
		"/apis/storage.k8s.io/v1/csidrivers/csi.example.test": errOfRead,
	} {
		checkRequest(t, seen, path, err)
	}
	seen.mu.Lock()
	defer seen.mu.Unlock()
	if len(seen.from) != 1 {
		t.Errorf("connections = %v, want one", seen.from)
	}
	for _, client := range []rest.Interface{c.reviews, c.storage} {
		if transportOf(t, client) != transportOf(t, c.core) {
			t.Error("two clients have each a transport of their own")
		}
	}
}

// checkRequest checks that the server, which finds nothing, was asked with the driver's credentials.
func checkRequest(t *testing.T, seen *asked, path string, err error) {
	t.Helper()
	seen.mu.Lock()
	defer seen.mu.Unlock()
	header, found := seen.requests[path]
	if !found || err == nil {
		t.Errorf("the API server was not asked for %s: %v", path, err)
		return
	}
	if got := header.Get("Authorization"); got != "Bearer drivers" {
		t.Errorf("%s: Authorization = %q, want the driver's token", path, got)
	}
	if got := header.Get("Accept"); !strings.HasPrefix(got, "application/vnd.kubernetes.protobuf") {
		t.Errorf("%s: Accept = %q, want protobuf", path, got)
	}
	if got := header.Get("User-Agent"); !strings.HasPrefix(got, "liveconfig-driver/") {
		t.Errorf("%s: User-Agent = %q, want the driver's", path, got)
	}
}

func transportOf(t *testing.T, client rest.Interface) *http.Client {
	t.Helper()
	c, ok := client.(*rest.RESTClient)
	if !ok {
		t.Fatalf("the client is a %T", client)
	}
	return c.Client
}

func TestRunStopsAtMistakes(t *testing.T) {
	t.Parallel()
	err := run(t.Context(), []string{"--log-format=xml"}, onNode, io.Discard)
	if want := `--log-format "xml" is not text or json`; err == nil || err.Error() != want {
		t.Errorf("run = %v, want %s", err, want)
	}
	if err := run(t.Context(), []string{"-h"}, onNode, io.Discard); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("run = %v, want %v", err, flag.ErrHelp)
	}
}

// TestSELinuxContext holds on any node: with SELinux the context is taken, without it there is none.
func TestSELinuxContext(t *testing.T) {
	t.Parallel()
	filesystems, err := os.ReadFile("/proc/filesystems")
	if err != nil {
		t.Fatal(err)
	}
	want := ""
	if strings.Contains(string(filesystems), "selinuxfs") {
		want = "user_u:role_r:type_t:s0"
	}
	if got, err := selinuxContext("user_u:role_r:type_t:s0"); got != want || err != nil {
		t.Errorf("selinuxContext = %q, %v, want %q", got, err, want)
	}
}
