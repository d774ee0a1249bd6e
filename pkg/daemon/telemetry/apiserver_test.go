package telemetry_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"path"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/liveconfig-csi/liveconfig/pkg/daemon/kubeclient"
	"github.com/liveconfig-csi/liveconfig/pkg/daemon/telemetry"
)

// server is the API server's side of Events, behind a transport. It refuses, by failing the test, whatever is neither the
// creation of an Event nor a patch of one.
type server struct {
	t testing.TB

	mu      sync.Mutex // Guards the fields below.
	created []*corev1.Event
	asked   []asked
	gate    chan struct{}             // Answers wait for it, unless nil.
	broken  func(*http.Request) error // Why a request does not arrive, unless nil.
	refuse  func(*corev1.Event) error // What a creation is answered, unless nil. An API error.
}

// asked is a request, and when it came.
type asked struct {
	at   time.Time
	note string // Of the Event.
}

func (s *server) RoundTrip(r *http.Request) (*http.Response, error) {
	if s.gate != nil {
		<-s.gate
	}
	if s.broken != nil {
		if err := s.broken(r); err != nil {
			return nil, err
		}
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	const events = "/api/v1/namespaces/default/events"
	switch {
	case r.Method == http.MethodPost && r.URL.Path == events:
		return s.createLocked(r, body)
	case r.Method == http.MethodPatch && path.Dir(r.URL.Path) == events:
		return s.patchLocked(r, body)
	}
	s.t.Errorf("%s %s, want an Event created or patched", r.Method, r.URL)
	return nil, errors.New("not served")
}

func (s *server) createLocked(r *http.Request, body []byte) (*http.Response, error) {
	event := &corev1.Event{}
	if err := json.Unmarshal(body, event); err != nil {
		return nil, err
	}
	s.asked = append(s.asked, asked{time.Now(), event.Message})
	if s.refuse != nil {
		return s.answer(r, http.StatusForbidden, statusOf(s.refuse(event)))
	}
	if s.findLocked(event.Name) >= 0 {
		return s.answer(r, http.StatusConflict, statusOf(apierrors.NewAlreadyExists(corev1.Resource("events"), event.Name)))
	}
	s.created = append(s.created, event)
	return s.answer(r, http.StatusCreated, event)
}

func (s *server) patchLocked(r *http.Request, body []byte) (*http.Response, error) {
	if got := r.Header.Get("Content-Type"); got != string(types.StrategicMergePatchType) {
		s.t.Errorf("a patch has the type %s, want %s", got, types.StrategicMergePatchType)
	}
	i := s.findLocked(path.Base(r.URL.Path))
	if i < 0 {
		s.asked = append(s.asked, asked{at: time.Now()})
		return s.answer(r, http.StatusNotFound, statusOf(apierrors.NewNotFound(corev1.Resource("events"), path.Base(r.URL.Path))))
	}
	s.asked = append(s.asked, asked{time.Now(), s.created[i].Message})
	s.created[i] = s.created[i].DeepCopy()
	if err := json.Unmarshal(body, s.created[i]); err != nil {
		return nil, err
	}
	return s.answer(r, http.StatusOK, s.created[i])
}

func (s *server) findLocked(name string) int {
	return slices.IndexFunc(s.created, func(e *corev1.Event) bool { return e.Name == name })
}

func statusOf(err error) *metav1.Status {
	var refused apierrors.APIStatus
	if !errors.As(err, &refused) {
		panic(err)
	}
	status := refused.Status()
	status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	return &status
}

func (s *server) answer(r *http.Request, code int, o any) (*http.Response, error) {
	body, err := json.Marshal(o)
	if err != nil {
		s.t.Error(err)
	}
	if event, ok := o.(*corev1.Event); ok && event.Kind != "Event" {
		s.t.Errorf("an Event was sent as a %q", event.Kind)
	}
	return &http.Response{
		StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}}, Request: r,
		Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)),
	}, nil
}

func (s *server) events() []*corev1.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.created)
}

func (s *server) requests() int { return len(s.log()) }

func (s *server) log() []asked {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked)
}

// notes returns the Events that were requested, in its order.
func (s *server) notes() []string {
	var notes []string
	for _, a := range s.log() {
		notes = append(notes, a.note)
	}
	return notes
}

// coreClient returns a client of core/v1 whose requests go to the transport.
func coreClient(t testing.TB, transport http.RoundTripper) rest.Interface {
	t.Helper()
	known, err := kubeclient.New()
	if err != nil {
		t.Fatal(err)
	}
	client, err := known.Client(&rest.Config{Host: "http://api", QPS: -1}, &http.Client{Transport: transport}, corev1.SchemeGroupVersion)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// writer is an Events that runs until the bubble ends.
type writer struct {
	*testing.T
	*telemetry.Events
	server *server
	run    func()
	stop   func()
}

// bubble runs a test on a writer that runs. Its end checks that no goroutine is left.
func bubble(t *testing.T, test func(w *writer)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWriter(t)
		w.run()
		test(w)
	})
}

func newWriter(t *testing.T) *writer {
	t.Helper()
	w := &writer{T: t, server: &server{t: t}}
	ctx, cancel := context.WithCancel(t.Context())
	events := telemetry.NewEvents(coreClient(t, w.server), "csi.test", "node-1")
	w.Events = events
	ended := make(chan error, 1)
	w.run = func() {
		events.Start(ctx)
		go func() { ended <- events.Run(ctx) }()
		synctest.Wait()
	}
	w.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run() = %v, want nil", err)
		}
	})
	t.Cleanup(w.stop)
	return w
}

// write writes an Event and lets things settle.
func (w *writer) write(e telemetry.Event) {
	w.Write(e)
	synctest.Wait()
}

// pass lets d go by on the bubble's clock.
func (w *writer) pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// How long news waits.
const (
	shortestDelay = time.Second
	longestDelay  = 10 * time.Second
)
