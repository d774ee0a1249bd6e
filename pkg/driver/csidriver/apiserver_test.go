package csidriver_test

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"testing"

	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"github.com/liveconfig-csi/liveconfig/pkg/daemon/kubeclient"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/csidriver"
)

// name is the driver's, and that of its object.
const name = "csi.example.org"

// apiServer serves CSIDriver objects over HTTP, on connections that are made of channels, so that a synctest bubble can
// tell when all is quiet. It refuses, by failing the test, whatever does not select the one object by name.
type apiServer struct {
	t           *testing.T
	connections chan net.Conn
	transport   *http.Transport
	served      http.Server

	mu       sync.Mutex // Guards all fields below.
	version  int
	object   *storagev1.CSIDriver // Nil while there is none.
	history  []event
	watches  map[chan event]bool // Those that are open.
	requests []request
	dialErr  error         // Why nobody can connect, unless nil.
	listErr  error         // What lists are answered, unless nil. An API error.
	watchErr error         // What watches are answered, unless nil. An API error.
	oldErr   error         // What lists are answered that ask for a version, unless nil. An API error.
	gate     chan struct{} // Lists are answered once it is closed, unless nil.
}

// event is one line of a watch.
type event struct {
	version int
	text    []byte
}

// request is what a client has asked for.
type request struct{ verb, version, timeout string }

// newAPIServer returns a server without an object. It ends with the test.
func newAPIServer(t *testing.T) *apiServer {
	t.Helper()
	a := &apiServer{t: t, connections: make(chan net.Conn), version: 100, watches: map[chan event]bool{}}
	a.transport = &http.Transport{DialContext: a.dial}
	a.served.Handler = a
	ended := make(chan error)
	go func() { ended <- a.served.Serve(a) }()
	t.Cleanup(func() {
		a.transport.CloseIdleConnections()
		if err := errors.Join(a.served.Close(), <-ended); !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("the API server's end: %v", err)
		}
	})
	return a
}

// watcher returns a watcher with a real client.
func (a *apiServer) watcher() *csidriver.Watcher {
	a.t.Helper()
	types, err := kubeclient.New()
	if err != nil {
		a.t.Fatal(err)
	}
	cfg := &rest.Config{Host: "http://api", QPS: -1}
	client, err := types.Client(cfg, &http.Client{Transport: a.transport}, storagev1.SchemeGroupVersion)
	if err != nil {
		a.t.Fatal(err)
	}
	return csidriver.New(client, types, name)
}

// dial connects a client.
func (a *apiServer) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	a.mu.Lock()
	err := a.dialErr
	a.mu.Unlock()
	if err != nil {
		return nil, err
	}
	ours, theirs := net.Pipe()
	select {
	case a.connections <- ours:
		return theirs, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept, Close and Addr make the server a listener of its own connections.
func (a *apiServer) Accept() (net.Conn, error) {
	c, ok := <-a.connections
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}

func (a *apiServer) Close() error   { close(a.connections); return nil }
func (a *apiServer) Addr() net.Addr { return &net.UnixAddr{Name: "api", Net: "pipe"} }

func (a *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	if r.URL.Path != "/apis/storage.k8s.io/v1/csidrivers" || query.Get("fieldSelector") != "metadata.name="+name ||
		r.Method != http.MethodGet || query.Has("sendInitialEvents") {
		a.t.Errorf("%s %s, want one CSIDriver object selected by name, and a plain list", r.Method, r.URL)
	}
	w.Header().Set("Content-Type", "application/json")
	if query.Get("watch") == "" {
		a.list(w, r)
		return
	}
	a.watch(w, r)
}

func (a *apiServer) list(w http.ResponseWriter, r *http.Request) {
	version := r.URL.Query().Get("resourceVersion")
	a.mu.Lock()
	a.requests = append(a.requests, request{verb: "list", version: version})
	gate := a.gate
	a.mu.Unlock()
	if gate != nil {
		select {
		case <-gate:
		case <-r.Context().Done():
			return
		}
	}
	a.mu.Lock()
	answer, err := a.answerLocked(), a.listErr
	if err == nil && version != "" {
		err = a.oldErr
	}
	a.mu.Unlock()
	if err != nil {
		refuse(w, err)
		return
	}
	_, _ = w.Write(answer)
}

func (a *apiServer) answerLocked() []byte {
	list := &storagev1.CSIDriverList{
		TypeMeta: metav1.TypeMeta{APIVersion: "storage.k8s.io/v1", Kind: "CSIDriverList"},
		ListMeta: metav1.ListMeta{ResourceVersion: strconv.Itoa(a.version)},
	}
	if a.object != nil {
		list.Items = append(list.Items, *a.object)
	}
	return encode(a.t, list)
}

func (a *apiServer) watch(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	a.mu.Lock()
	a.requests = append(a.requests, request{"watch", query.Get("resourceVersion"), query.Get("timeoutSeconds")})
	if err := a.watchErr; err != nil {
		a.mu.Unlock()
		refuse(w, err)
		return
	}
	since, err := strconv.Atoi(query.Get("resourceVersion"))
	if err != nil {
		a.t.Errorf("watch since version %q, want the list's", query.Get("resourceVersion"))
	}
	events := make(chan event, 1000)
	for _, e := range a.history {
		if e.version > since {
			events <- e
		}
	}
	a.watches[events] = true
	a.mu.Unlock()
	a.stream(w, r, events)
}

// stream sends events until they end or the client goes.
func (a *apiServer) stream(w http.ResponseWriter, r *http.Request, events chan event) {
	defer func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.watches, events)
	}()
	flush := http.NewResponseController(w).Flush
	for err := flush(); err == nil; err = flush() {
		select {
		case e, ok := <-events:
			if !ok {
				return
			}
			_, _ = w.Write(e.text)
		case <-r.Context().Done():
			return
		}
	}
}

// refuse answers with an API error as the API server does.
func refuse(w http.ResponseWriter, err error) {
	var api apierrors.APIStatus
	if !errors.As(err, &api) {
		http.Error(w, err.Error(), http.StatusTeapot)
		return
	}
	status := api.Status()
	status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	w.WriteHeader(int(status.Code))
	_ = json.NewEncoder(w).Encode(status)
}

// put creates the object, or changes it.
func (a *apiServer) put(podInfoOnMount *bool) {
	a.t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	kind := watch.Modified
	if a.object == nil {
		kind = watch.Added
	}
	a.putLocked(podInfoOnMount)
	a.sendLocked(kind, a.object)
}

// putUnseen changes the object without telling any watch.
func (a *apiServer) putUnseen(podInfoOnMount *bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.putLocked(podInfoOnMount)
}

func (a *apiServer) putLocked(podInfoOnMount *bool) {
	a.version++
	a.object = &storagev1.CSIDriver{
		TypeMeta:   metav1.TypeMeta{APIVersion: "storage.k8s.io/v1", Kind: "CSIDriver"},
		ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: strconv.Itoa(a.version)},
		Spec:       storagev1.CSIDriverSpec{PodInfoOnMount: podInfoOnMount},
	}
}

// remove deletes the object.
func (a *apiServer) remove() {
	a.t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.version++
	gone := a.object.DeepCopy()
	gone.ResourceVersion = strconv.Itoa(a.version)
	a.object = nil
	a.sendLocked(watch.Deleted, gone)
}

func (a *apiServer) sendLocked(kind watch.EventType, o runtime.Object) {
	e := event{a.version, encode(a.t, metav1.WatchEvent{Type: string(kind), Object: runtime.RawExtension{Object: o}})}
	if kind != watch.Error {
		a.history = append(a.history, e)
	}
	for w := range a.watches {
		w <- e
	}
}

// expire tells the open watches that what they ask for is gone, and forgets it.
func (a *apiServer) expire() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.history = nil
	status := apierrors.NewResourceExpired("too old").Status()
	status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	a.sendLocked(watch.Error, &status)
}

// trouble sets why requests fail from now on; the zero value stands for no reason. Watches that are open stay so.
type trouble struct{ dial, list, watch, old error }

func (a *apiServer) suffer(is trouble) {
	a.transport.CloseIdleConnections()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.dialErr, a.listErr, a.watchErr, a.oldErr = is.dial, is.list, is.watch, is.old
}

// hold makes lists wait for their answer until the returned function is called.
func (a *apiServer) hold() (release func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	gate := make(chan struct{})
	a.gate = gate
	return sync.OnceFunc(func() { close(gate) })
}

// hangUp closes every watch, as an API server does that goes away.
func (a *apiServer) hangUp() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for w := range a.watches {
		close(w)
	}
	clear(a.watches)
}

// open returns how many watches are open.
func (a *apiServer) open() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.watches)
}

// asked returns the requests so far.
func (a *apiServer) asked() []request {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.requests)
}

// count returns how many requests of the verb there were so far.
func (a *apiServer) count(verb string) int {
	return len(slices.DeleteFunc(a.asked(), func(r request) bool { return r.verb != verb }))
}

func encode(t *testing.T, o any) []byte {
	t.Helper()
	text, err := json.Marshal(o)
	if err != nil {
		t.Error(err)
	}
	return append(text, '\n')
}
