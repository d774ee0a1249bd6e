package main

import (
	"context"
	"errors"
	"flag"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/klog/v2"

	"github.com/liveconfig-csi/liveconfig/docs"
	"github.com/liveconfig-csi/liveconfig/pkg/expect"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestRunStopsAtMistakes(t *testing.T) {
	t.Parallel()
	err := run(t.Context(), []string{"--log-format=xml"}, inPod, io.Discard)
	if want := `--log-format "xml" is not text or json`; err == nil || err.Error() != want {
		t.Errorf("run = %v, want %s", err, want)
	}
	if err := run(t.Context(), []string{"-h"}, inPod, io.Discard); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("run = %v, want %v", err, flag.ErrHelp)
	}
}

func TestPartsNeedACluster(t *testing.T) {
	t.Parallel()
	cfg := defaults()
	cfg.kubeconfig = filepath.Join(t.TempDir(), "none")
	_, err := newParts(t.Context(), cfg)
	if err == nil || !strings.HasPrefix(err.Error(), "read how to reach the API server (see --kubeconfig): ") {
		t.Errorf("newParts = %v, want it to name the flag", err)
	}
}

// TestReady is of a process that works and has not seen the cluster yet.
func TestReady(t *testing.T) {
	t.Parallel()
	p := newFakeParts(t, &registry{})
	if err := p.ready(); err != nil {
		t.Errorf("ready of a process that waits = %v, want nil", err)
	}
	p.enter(leading)
	if err := p.ready(); err == nil || err.Error() != "the caches are being filled" {
		t.Errorf("ready of a process that works = %v, want it to say that caches are being filled", err)
	}
}

// TestMetricsAreServed, and profiles not.
func TestMetricsAreServed(t *testing.T) {
	t.Parallel()
	p := newFakeParts(t, &registry{})
	for path, want := range map[string]struct {
		code int
		text string
	}{
		"/metrics":      {http.StatusOK, "liveconfig_controller_copies 0\n"},
		"/healthz":      {http.StatusOK, "ok\n"},
		"/readyz":       {http.StatusOK, "ok\n"},
		"/debug/pprof/": {http.StatusNotFound, ""},
	} {
		recorder := httptest.NewRecorder()
		p.mux().ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
		if recorder.Code != want.code || !strings.Contains(recorder.Body.String(), want.text) {
			t.Errorf("GET %s = %d %q, want %d and %q", path, recorder.Code, recorder.Body, want.code, want.text)
		}
	}
}

// TestPageOfMetrics compares names, labels, types and helps with docs/metrics.md.
func TestPageOfMetrics(t *testing.T) {
	cfg := defaults()
	cfg.dryRun, cfg.nodeTaint = true, true
	_, cfg.kubeconfig = newAPIServer(t)
	p, err := newParts(t.Context(), cfg)
	expect.NoError(t, err)
	defer p.broadcaster.Shutdown()
	recorder := httptest.NewRecorder()
	p.mux().ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	docs.Table{
		Page: "metrics.md", Name: "the controller's metrics", Columns: []string{"metric", "type", "meaning"},
		Rows: docs.Metrics(recorder.Body.String()),
	}.Compare(t)
}

// apiServer keeps one lease and forbids everything else, so the caches are never full.
type apiServer struct {
	t *testing.T
	// held is closed when the lease is held first.
	held chan struct{}
	// lists are the first lists of ConfigMaps and Secrets that were asked for, by kind and label selector.
	lists chan string

	mu    sync.Mutex // Guards what is below.
	lease *coordinationv1.Lease
	// holders are who has held the lease, in order.
	holders []string
	agents  map[string]bool
}

func newAPIServer(t *testing.T) (api *apiServer, kubeconfig string) {
	t.Helper()
	api = &apiServer{t: t, held: make(chan struct{}), agents: map[string]bool{}, lists: make(chan string, 100)}
	server := httptest.NewServer(api)
	t.Cleanup(server.Close)
	kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	text := `{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c}}], ` +
		`clusters: [{name: c, cluster: {server: "` + server.URL + `"}}]}`
	expect.NoError(t, os.WriteFile(kubeconfig, []byte(text), 0o600))
	return api, kubeconfig
}

func (a *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.agents[r.UserAgent()] = true
	if kind := path.Base(r.URL.Path); kind == "configmaps" || kind == "secrets" {
		select {
		case a.lists <- kind + " " + r.URL.Query().Get("labelSelector"):
		default:
		}
	}
	switch {
	case !strings.HasPrefix(r.URL.Path, "/apis/coordination.k8s.io/v1/namespaces/liveconfig-system/leases"):
		w.WriteHeader(http.StatusForbidden)
	case r.Method == http.MethodGet && a.lease == nil:
		w.WriteHeader(http.StatusNotFound)
	case r.Method == http.MethodGet:
		a.answer(w)
	default:
		a.write(w, r)
	}
}

func (a *apiServer) write(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		a.t.Error(err)
		return
	}
	object, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
	lease, ok := object.(*coordinationv1.Lease)
	if !ok {
		a.t.Errorf("%s %s has a %T: %v", r.Method, r.URL, object, err)
		return
	}
	if a.lease == nil {
		close(a.held)
	} else if lease.ResourceVersion != a.lease.ResourceVersion {
		w.WriteHeader(http.StatusConflict)
		return
	}
	lease.ResourceVersion += "1"
	a.lease = lease
	a.answer(w)
	if holder := *lease.Spec.HolderIdentity; len(a.holders) == 0 || a.holders[len(a.holders)-1] != holder {
		a.holders = append(a.holders, holder)
	}
}

func (a *apiServer) answer(w http.ResponseWriter) {
	w.Header().Set("Content-Type", runtime.ContentTypeJSON)
	if err := scheme.Codecs.LegacyCodec(coordinationv1.SchemeGroupVersion).Encode(a.lease, w); err != nil {
		a.t.Error(err)
	}
}

// TestRunUntilASignal gives the lease back and leaves nothing behind. It is not parallel: run sets up the process's log.
func TestRunUntilASignal(t *testing.T) {
	api, kubeconfig := newAPIServer(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		ended <- run(ctx, []string{"--kubeconfig=" + kubeconfig, "--http-endpoint=127.0.0.1:0", "-v=0"}, inPod, io.Discard)
	}()
	select {
	case <-api.held:
	case err := <-ended:
		t.Fatalf("run = %v before the lease was held", err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("run = %v, want nil", err)
	}
	api.mu.Lock()
	defer api.mu.Unlock()
	if diff := cmp.Diff([]string{"controller-0", ""}, api.holders); diff != "" {
		t.Errorf("holders of the lease (-want +got):\n%s", diff)
	}
	for agent := range api.agents {
		if !strings.HasPrefix(agent, "liveconfig-controller/") {
			t.Errorf("User-Agent = %q, want the controller's", agent)
		}
	}
}

// TestObjectsAreWatchedOnce: rollouts and releases share the caches of ConfigMaps and Secrets, of which there is one for copies and
// one for all others.
func TestObjectsAreWatchedOnce(t *testing.T) {
	t.Parallel()
	api, kubeconfig := newAPIServer(t)
	cfg := defaults()
	cfg.kubeconfig, cfg.dryRun = kubeconfig, true
	p, err := newParts(t.Context(), cfg)
	expect.NoError(t, err)
	defer p.broadcaster.Shutdown()
	ctx, stop := context.WithCancel(klog.NewContext(t.Context(), klog.Logger{}))
	ended := make(chan error, 1)
	go func() { ended <- p.lead(ctx) }()
	want := []string{
		"configmaps !liveconfig.internal/copy-of", "configmaps liveconfig.internal/copy-of",
		"secrets !liveconfig.internal/copy-of", "secrets liveconfig.internal/copy-of",
	}
	lists := map[string]int{}
	again := func(list string) bool { return lists[list] > 1 } // By then each cache has asked once.
	for !again(want[0]) || !again(want[1]) || !again(want[2]) || !again(want[3]) {
		lists[<-api.lists]++
	}
	stop()
	expect.NoError(t, <-ended)
	close(api.lists)
	for list := range api.lists {
		lists[list]++
	}
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(lists))); diff != "" {
		t.Errorf("lists (-want +got):\n%s", diff)
	}
}

// TestRunEndsWhenItCannotServe, before anything has begun. It is not parallel: run sets up the process's log.
func TestRunEndsWhenItCannotServe(t *testing.T) {
	_, kubeconfig := newAPIServer(t)
	taken, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	expect.NoError(t, err)
	defer taken.Close()
	address := taken.Addr().String()
	err = run(t.Context(), []string{"--kubeconfig=" + kubeconfig, "--http-endpoint=" + address, "-v=0"}, inPod, io.Discard)
	if err == nil || !strings.HasPrefix(err.Error(), "listen on "+address+" for HTTP: ") {
		t.Errorf("run = %v, want it to say that the address is taken", err)
	}
}
