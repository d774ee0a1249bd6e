// Package fakeserver plays an API server for tests of who lists and watches ConfigMaps and Secrets,
// in a synctest bubble: it answers, is slow, refuses, hangs up or forgets as a test wants it.
//
// It does not know the clients, nor what they make of an answer.
package fakeserver

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
)

// Server plays the API server behind a transport, so that all of the client library is at work.
// It honours field selectors and resource versions: a watch delivers exactly what happened to its
// object since the list. It refuses, by failing the test, whatever does not select one object by
// name.
type Server struct {
	t *testing.T
	// Front is how it speaks.
	Front *Front
	// Wire is the transport of clients.
	Wire http.RoundTripper

	mu       sync.Mutex // Guards all fields below.
	version  int
	objects  map[api.Ref]Object
	history  map[api.Ref][]event   // Of each object.
	watches  map[*serverWatch]bool // Those that are open.
	unclosed int                   // How many were answered whose body was not closed since.
	requests []Request
	listErr  error                               // Of all lists, unless nil.
	watchErr error                               // Of all watches, unless nil.
	getErr   error                               // Of all gets, unless nil.
	oldErr   error                               // Of lists that name a version, unless nil.
	gate     chan struct{}                       // Lists make their answer and then wait here, unless nil.
	entrance chan struct{}                       // Watches wait here before they are opened, unless nil.
	asked    chan struct{}                       // Has an element after a request.
	swallows func(verb string, ref api.Ref) bool // Requests that never get an answer; nil for none.
	// Of selections: see selection.go.
	steps       []step
	compacted   int   // The version before which the server has forgotten everything.
	continueErr error // Of all pages but the first, unless nil.
}

// Object is a ConfigMap or a Secret.
type Object interface {
	runtime.Object
	metav1.Object
}

// event has the bytes of one, and the version of the object in it.
type event struct {
	version int
	bytes   []byte
}

// Request is one call of a client, or the question whether it may be made.
type Request struct {
	Verb string
	Ref  api.Ref
	Opts metav1.ListOptions
	At   time.Time
}

// The verbs of such questions: [Asking] is for whether it may be made, and [Asserting] for whether
// the server is sure of a denial.
const (
	Asking    = "allow"
	Asserting = "deny"
)

// New returns a server without objects.
func New(t *testing.T) *Server {
	t.Helper()
	c := &Server{
		t: t, Front: NewFront(t), version: 100,
		objects: map[api.Ref]Object{}, history: map[api.Ref][]event{}, watches: map[*serverWatch]bool{},
		asked: make(chan struct{}, 1),
	}
	c.Wire = c
	return c
}

func (c *Server) list(ref api.Ref, opts metav1.ListOptions) (runtime.Object, error) {
	c.mu.Lock()
	answer, err := c.answerLocked(ref), c.listErr
	if err == nil && opts.ResourceVersion != "" {
		err = c.oldErr
	}
	c.recordLocked("list", ref, opts)
	gate := c.gate
	c.mu.Unlock()
	if gate != nil {
		<-gate
	}
	if err != nil {
		return nil, err
	}
	return answer, nil
}

func (c *Server) get(ref api.Ref) (runtime.Object, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.recordLocked("get", ref, metav1.ListOptions{})
	if c.getErr != nil {
		return nil, c.getErr
	}
	if o, found := c.objects[ref]; found {
		return o.DeepCopyObject(), nil
	}
	return nil, apierrors.NewNotFound(corev1.Resource(ref.Kind.Resource()+"s"), ref.Name)
}

func (c *Server) recordLocked(verb string, ref api.Ref, opts metav1.ListOptions) {
	c.requests = append(c.requests, Request{verb, ref, opts, time.Now()})
	select {
	case c.asked <- struct{}{}:
	default:
	}
}

// Ask records a question about the object.
func (c *Server) Ask(verb string, ref api.Ref) {
	c.Set(func() { c.recordLocked(verb, ref, metav1.ListOptions{}) })
}

func (c *Server) answerLocked(ref api.Ref) runtime.Object {
	version := metav1.ListMeta{ResourceVersion: strconv.Itoa(c.version)}
	configMaps, secrets := &corev1.ConfigMapList{ListMeta: version}, &corev1.SecretList{ListMeta: version}
	switch o := c.objects[ref].(type) {
	case *corev1.ConfigMap:
		configMaps.Items = append(configMaps.Items, *o)
	case *corev1.Secret:
		secrets.Items = append(secrets.Items, *o)
	}
	if ref.Kind == api.Secret {
		return secrets
	}
	return configMaps
}

func (c *Server) watch(ctx context.Context, ref api.Ref, opts metav1.ListOptions) (*serverWatch, error) {
	c.mu.Lock()
	c.recordLocked("watch", ref, opts)
	entrance := c.entrance
	c.mu.Unlock()
	if entrance != nil {
		<-entrance
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.watchErr != nil {
		return nil, c.watchErr
	}
	w := &serverWatch{Server: c, ref: ref, ctx: ctx, events: make(chan []byte, 1000)}
	if opts.TimeoutSeconds != nil {
		w.until = time.Now().Add(time.Duration(*opts.TimeoutSeconds) * time.Second)
	}
	c.watches[w] = true
	c.unclosed++
	context.AfterFunc(ctx, w.stop)
	from, err := strconv.Atoi(opts.ResourceVersion)
	if err != nil {
		c.t.Errorf("resource version %q, want a number", opts.ResourceVersion)
	}
	for _, e := range c.history[ref] {
		if e.version > from {
			w.events <- e.bytes
		}
	}
	return w, nil
}

// Put creates or updates an object, and gives it a version and a UID.
func (c *Server) Put(o Object) {
	c.mu.Lock()
	defer c.mu.Unlock()
	ref := refOf(o)
	old, found := c.objects[ref]
	if found {
		o.SetUID(old.GetUID())
		c.sendLocked(watch.Modified, o)
	} else {
		o.SetUID(types.UID(fmt.Sprintf("uid-%d", c.version+1)))
		c.sendLocked(watch.Added, o)
	}
	c.objects[ref] = o
	c.noteStepLocked(old, o)
}

// Remove deletes an object.
func (c *Server) Remove(ref api.Ref) {
	c.mu.Lock()
	defer c.mu.Unlock()
	gone, _ := c.objects[ref].DeepCopyObject().(Object)
	delete(c.objects, ref)
	c.sendLocked(watch.Deleted, gone)
	c.noteStepLocked(gone, nil)
}

// sendLocked gives the object the next version, and sends the event.
func (c *Server) sendLocked(what watch.EventType, o Object) {
	c.version++
	o.SetResourceVersion(strconv.Itoa(c.version))
	ref, data := refOf(o), c.Front.Event(watch.Event{Type: what, Object: o})
	c.history[ref] = append(c.history[ref], event{c.version, data})
	c.deliverLocked(ref, data)
}

func (c *Server) deliverLocked(ref api.Ref, event []byte) {
	for w := range c.watches {
		if w.ref == ref && !w.isDead {
			w.events <- event
		}
	}
}

// Send puts an event into the open watches of an object, and nowhere else.
func (c *Server) Send(ref api.Ref, e watch.Event) {
	c.SendBytes(ref, c.Front.Event(e))
}

// SendBytes sends arbitrary bytes.
func (c *Server) SendBytes(ref api.Ref, data []byte) {
	c.Set(func() { c.deliverLocked(ref, data) })
}

// Set changes what is answered from now on.
func (c *Server) Set(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
}

// Answer sets what lists and watches answer from now on, and gets as lists; nil stands for the
// truth.
func (c *Server) Answer(listErr, watchErr error) {
	c.Set(func() { c.listErr, c.watchErr, c.getErr = listErr, watchErr, listErr })
}

// AnswerGets sets what gets answer from now on; nil stands for the truth.
func (c *Server) AnswerGets(err error) { c.Set(func() { c.getErr = err }) }

// Swallow sets which requests never get an answer from now on; nil for none.
func (c *Server) Swallow(swallows func(verb string, ref api.Ref) bool) {
	c.Set(func() { c.swallows = swallows })
}

// takeSwallowed records a request that is never answered, and reports whether it is one.
func (c *Server) takeSwallowed(verb string, ref api.Ref, opts metav1.ListOptions) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.swallows == nil || !c.swallows(verb, ref) {
		return false
	}
	c.recordLocked(verb, ref, opts)
	return true
}

// RefuseVersions sets what lists answer from now on when they ask for a resource version.
func (c *Server) RefuseVersions(err error) { c.Set(func() { c.oldErr = err }) }

// Hold makes the answers of lists wait until the returned function is called.
func (c *Server) Hold() (answer func()) { return c.holdAt(&c.gate) }

// HoldWatches keeps watches from being opened until the returned function is called.
func (c *Server) HoldWatches() (answer func()) { return c.holdAt(&c.entrance) }

func (c *Server) holdAt(gate *chan struct{}) (answer func()) {
	closed := make(chan struct{})
	c.Set(func() { *gate = closed })
	return sync.OnceFunc(func() {
		c.Set(func() {
			if *gate == closed {
				*gate = nil
			}
		})
		close(closed)
	})
}

// end closes the watches that match.
func (c *Server) end(matches func(*serverWatch) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for w := range c.watches {
		if matches(w) {
			delete(c.watches, w)
			close(w.events)
		}
	}
}

// Cut closes every watch, as an API server that goes away does.
func (c *Server) Cut() { c.end(func(*serverWatch) bool { return true }) }

// PassAll lets requests through that come from now on. Those that wait go on waiting.
func (c *Server) PassAll() { c.Set(func() { c.gate, c.entrance = nil, nil }) }

// PutUnseen changes an object without telling any watch, of which none would go on from there.
func (c *Server) PutUnseen(o Object) {
	ref := refOf(o)
	c.Deaden(ref)
	c.Put(o)
	c.Set(func() { c.history[ref] = nil })
}

// StillOpen returns how many watches were answered whose body was not closed since.
func (c *Server) StillOpen() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.unclosed
}

// EndOverdue closes the watches that have lasted for as long as they were asked for.
func (c *Server) EndOverdue() {
	c.end(func(w *serverWatch) bool { return !time.Now().Before(w.until) })
}

// Deaden makes the open watches of an object bring nothing any more, and stay open.
func (c *Server) Deaden(ref api.Ref) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for w := range c.watches {
		if w.ref == ref {
			w.isDead = true
		}
	}
}

// Open returns how many watches of the object are open.
func (c *Server) Open(ref api.Ref) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for w := range maps.Keys(c.watches) {
		if w.ref == ref {
			n++
		}
	}
	return n
}

func refOf(o Object) api.Ref {
	ref := api.Ref{Kind: api.ConfigMap, Namespace: o.GetNamespace(), Name: o.GetName()}
	if _, ok := o.(*corev1.Secret); ok {
		ref.Kind = api.Secret
	}
	return ref
}
