package csidriver_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"testing"

	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// name is the name of the driver and of its object.
const name = "csi.example.org"

// apiServer serves one CSIDriver object behind a transport. It fails the test if a request selects
// anything else.
type apiServer struct {
	t *testing.T

	mu       sync.Mutex // Guards all fields below.
	version  int
	object   *storagev1.CSIDriver // Nil while there is none.
	watches  map[*io.PipeWriter]bool
	requests []string // Their verbs.
	is       trouble
	gate     chan struct{} // Lists are answered once it is closed, unless nil.
}

// trouble is the errors that requests get instead of answers. Open watches stay open.
type trouble struct{ list, watch error }

func newAPIServer(t *testing.T) *apiServer {
	t.Helper()
	return &apiServer{t: t, version: 100, watches: map[*io.PipeWriter]bool{}}
}

// RoundTrip implements [http.RoundTripper].
func (a *apiServer) RoundTrip(r *http.Request) (*http.Response, error) {
	query := r.URL.Query()
	if r.URL.Path != "/apis/storage.k8s.io/v1/csidrivers" || r.Method != http.MethodGet ||
		query.Get("fieldSelector") != "metadata.name="+name {
		a.t.Errorf("%s %s, want one CSIDriver object selected by name", r.Method, r.URL)
	}
	if query.Get("watch") == "" {
		return a.list(r)
	}
	return a.watch(r)
}

func (a *apiServer) list(r *http.Request) (*http.Response, error) {
	a.mu.Lock()
	a.requests = append(a.requests, "list")
	gate := a.gate
	a.mu.Unlock()
	if gate != nil {
		select {
		case <-gate:
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.is.list != nil {
		return refuse(r, a.is.list)
	}
	list := &storagev1.CSIDriverList{
		TypeMeta: metav1.TypeMeta{APIVersion: "storage.k8s.io/v1", Kind: "CSIDriverList"},
		ListMeta: metav1.ListMeta{ResourceVersion: strconv.Itoa(a.version)},
	}
	if a.object != nil {
		list.Items = append(list.Items, *a.object)
	}
	return respond(r, http.StatusOK, io.NopCloser(bytes.NewReader(a.encode(list)))), nil
}

func (a *apiServer) watch(r *http.Request) (*http.Response, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.requests = append(a.requests, "watch")
	if a.is.watch != nil {
		return refuse(r, a.is.watch)
	}
	if got, want := r.URL.Query().Get("resourceVersion"), strconv.Itoa(a.version); got != want {
		a.t.Errorf("watch from version %s, want %s", got, want)
	}
	reader, writer := io.Pipe()
	a.watches[writer] = true
	context.AfterFunc(r.Context(), func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.watches, writer)
		_ = writer.CloseWithError(r.Context().Err())
	})
	return respond(r, http.StatusOK, reader), nil
}

func respond(r *http.Request, code int, body io.ReadCloser) *http.Response {
	return &http.Response{
		Status: http.StatusText(code), StatusCode: code, Body: body, Request: r,
		Header: http.Header{"Content-Type": {"application/json"}}, ContentLength: -1,
	}
}

// refuse answers with an API error as the API server does. Other errors are the network's.
func refuse(r *http.Request, err error) (*http.Response, error) {
	api, ok := errors.AsType[*apierrors.StatusError](err)
	if !ok {
		return nil, err
	}
	status := api.Status()
	status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	text, err := json.Marshal(status)
	return respond(r, int(status.Code), io.NopCloser(bytes.NewReader(text))), err
}

// put creates or changes the object.
func (a *apiServer) put(podInfoOnMount *bool) {
	a.t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	kind := watch.Modified
	if a.object == nil {
		kind = watch.Added
	}
	a.version++
	a.object = &storagev1.CSIDriver{
		TypeMeta:   metav1.TypeMeta{APIVersion: "storage.k8s.io/v1", Kind: "CSIDriver"},
		ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: strconv.Itoa(a.version)},
		Spec:       storagev1.CSIDriverSpec{PodInfoOnMount: podInfoOnMount},
	}
	a.sendLocked(kind, a.object)
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

// bookmark sends a bookmark to the open watches, as API servers do each minute.
func (a *apiServer) bookmark() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sendLocked(watch.Bookmark, &storagev1.CSIDriver{
		TypeMeta:   metav1.TypeMeta{APIVersion: "storage.k8s.io/v1", Kind: "CSIDriver"},
		ObjectMeta: metav1.ObjectMeta{ResourceVersion: strconv.Itoa(a.version)},
	})
}

func (a *apiServer) sendLocked(kind watch.EventType, o runtime.Object) {
	text := a.encode(metav1.WatchEvent{Type: string(kind), Object: runtime.RawExtension{Object: o}})
	for w := range a.watches {
		if _, err := w.Write(text); err != nil {
			a.t.Error(err)
		}
	}
}

func (a *apiServer) encode(o any) []byte {
	text, err := json.Marshal(o)
	if err != nil {
		a.t.Error(err)
	}
	return append(text, '\n')
}

// suffer lets requests fail from now on; the zero value ends that.
func (a *apiServer) suffer(is trouble) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.is = is
}

// hold lets lists wait for their answer until the returned function is called.
func (a *apiServer) hold() (release func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	gate := make(chan struct{})
	a.gate = gate
	return sync.OnceFunc(func() { close(gate) })
}

// hangUp closes every watch, as an API server that goes away does.
func (a *apiServer) hangUp() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for w := range a.watches {
		_ = w.Close()
	}
	clear(a.watches)
}

// wantRequests compares the verbs of the requests so far.
func (a *apiServer) wantRequests(want ...string) {
	a.t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	if got := fmt.Sprint(a.requests); got != fmt.Sprint(want) {
		a.t.Errorf("requests = %v, want %v", got, want)
	}
}
