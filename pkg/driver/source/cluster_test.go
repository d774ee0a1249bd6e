package source_test

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

// cluster plays the API server behind a transport, so that all of the client library is at work.
// It honours field selectors and resource versions: a watch delivers exactly what happened to its
// object since the list. It refuses, by failing the test, whatever does not select one object by
// name. How it speaks is in front_test.go.
type cluster struct {
	t     *testing.T
	front *front
	wire  http.RoundTripper // The transport of clients.

	mu       sync.Mutex // Guards all fields below.
	version  int
	objects  map[api.Ref]object
	history  map[api.Ref][]event   // Of each object.
	watches  map[*serverWatch]bool // Those that are open.
	unclosed int                   // How many were answered whose body was not closed since.
	requests []request
	listErr  error                               // Of all lists, unless nil.
	watchErr error                               // Of all watches, unless nil.
	getErr   error                               // Of all gets, unless nil.
	oldErr   error                               // Of lists that name a version, unless nil.
	gate     chan struct{}                       // Lists make their answer and then wait here, unless nil.
	entrance chan struct{}                       // Watches wait here before they are opened, unless nil.
	asked    chan struct{}                       // Has an element after a request.
	swallows func(verb string, ref api.Ref) bool // Requests that never get an answer; nil for none.
	// Of selections: see selectioncluster_test.go.
	steps       []step
	compacted   int   // The version before which the server has forgotten everything.
	continueErr error // Of all pages but the first, unless nil.
}

// object is a ConfigMap or a Secret.
type object interface {
	runtime.Object
	metav1.Object
}

// event has the bytes of one, and the version of the object in it.
type event struct {
	version int
	bytes   []byte
}

// request is one call of a client, or the question whether it may be made.
type request struct {
	verb string
	ref  api.Ref
	opts metav1.ListOptions
	at   time.Time
}

// The verbs of such questions: asking is for whether it may be made, and asserting for whether
// the server is sure of a denial.
const (
	asking    = "allow"
	asserting = "deny"
)

func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{
		t: t, front: newFront(t), version: 100,
		objects: map[api.Ref]object{}, history: map[api.Ref][]event{}, watches: map[*serverWatch]bool{},
		asked: make(chan struct{}, 1),
	}
	c.wire = c
	return c
}

func (c *cluster) list(ref api.Ref, opts metav1.ListOptions) (runtime.Object, error) {
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

func (c *cluster) get(ref api.Ref) (runtime.Object, error) {
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

func (c *cluster) recordLocked(verb string, ref api.Ref, opts metav1.ListOptions) {
	c.requests = append(c.requests, request{verb, ref, opts, time.Now()})
	select {
	case c.asked <- struct{}{}:
	default:
	}
}

// ask records a question about the object.
func (c *cluster) ask(verb string, ref api.Ref) {
	c.set(func() { c.recordLocked(verb, ref, metav1.ListOptions{}) })
}

func (c *cluster) answerLocked(ref api.Ref) runtime.Object {
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

func (c *cluster) watch(ctx context.Context, ref api.Ref, opts metav1.ListOptions) (*serverWatch, error) {
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
	w := &serverWatch{cluster: c, ref: ref, ctx: ctx, events: make(chan []byte, 1000)}
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

// put creates or updates an object, and gives it a version and a UID.
func (c *cluster) put(o object) {
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

// remove deletes an object.
func (c *cluster) remove(ref api.Ref) {
	c.mu.Lock()
	defer c.mu.Unlock()
	gone, _ := c.objects[ref].DeepCopyObject().(object)
	delete(c.objects, ref)
	c.sendLocked(watch.Deleted, gone)
	c.noteStepLocked(gone, nil)
}

// sendLocked gives the object the next version, and sends the event.
func (c *cluster) sendLocked(what watch.EventType, o object) {
	c.version++
	o.SetResourceVersion(strconv.Itoa(c.version))
	ref, data := refOf(o), c.front.event(watch.Event{Type: what, Object: o})
	c.history[ref] = append(c.history[ref], event{c.version, data})
	c.deliverLocked(ref, data)
}

func (c *cluster) deliverLocked(ref api.Ref, event []byte) {
	for w := range c.watches {
		if w.ref == ref && !w.isDead {
			w.events <- event
		}
	}
}

// send puts an event into the open watches of an object, and nowhere else.
func (c *cluster) send(ref api.Ref, e watch.Event) {
	c.sendBytes(ref, c.front.event(e))
}

// sendBytes sends arbitrary bytes.
func (c *cluster) sendBytes(ref api.Ref, data []byte) {
	c.set(func() { c.deliverLocked(ref, data) })
}

// set changes what is answered from now on.
func (c *cluster) set(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
}

// answer sets what lists and watches answer from now on, and gets as lists; nil stands for the
// truth.
func (c *cluster) answer(listErr, watchErr error) {
	c.set(func() { c.listErr, c.watchErr, c.getErr = listErr, watchErr, listErr })
}

// answerGets sets what gets answer from now on; nil stands for the truth.
func (c *cluster) answerGets(err error) { c.set(func() { c.getErr = err }) }

// swallow sets which requests never get an answer from now on; nil for none.
func (c *cluster) swallow(swallows func(verb string, ref api.Ref) bool) {
	c.set(func() { c.swallows = swallows })
}

// takeSwallowed records a request that is never answered, and reports whether it is one.
func (c *cluster) takeSwallowed(verb string, ref api.Ref, opts metav1.ListOptions) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.swallows == nil || !c.swallows(verb, ref) {
		return false
	}
	c.recordLocked(verb, ref, opts)
	return true
}

// refuseVersions sets what lists answer from now on when they ask for a resource version.
func (c *cluster) refuseVersions(err error) { c.set(func() { c.oldErr = err }) }

// hold makes the answers of lists wait until the returned function is called.
func (c *cluster) hold() (answer func()) { return c.holdAt(&c.gate) }

// holdWatches keeps watches from being opened until the returned function is called.
func (c *cluster) holdWatches() (answer func()) { return c.holdAt(&c.entrance) }

func (c *cluster) holdAt(gate *chan struct{}) (answer func()) {
	closed := make(chan struct{})
	c.set(func() { *gate = closed })
	return sync.OnceFunc(func() {
		c.set(func() {
			if *gate == closed {
				*gate = nil
			}
		})
		close(closed)
	})
}

// end closes the watches that match.
func (c *cluster) end(matches func(*serverWatch) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for w := range c.watches {
		if matches(w) {
			delete(c.watches, w)
			close(w.events)
		}
	}
}

// hangUp closes every watch, as an API server that goes away does.
func (c *cluster) hangUp() { c.end(func(*serverWatch) bool { return true }) }

// endOverdue closes the watches that have lasted for as long as they were asked for.
func (c *cluster) endOverdue() {
	c.end(func(w *serverWatch) bool { return !time.Now().Before(w.until) })
}

// deaden makes the open watches of an object bring nothing any more, and stay open.
func (c *cluster) deaden(ref api.Ref) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for w := range c.watches {
		if w.ref == ref {
			w.isDead = true
		}
	}
}

// open returns how many watches of the object are open.
func (c *cluster) open(ref api.Ref) int {
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

func refOf(o object) api.Ref {
	ref := api.Ref{Kind: api.ConfigMap, Namespace: o.GetNamespace(), Name: o.GetName()}
	if _, ok := o.(*corev1.Secret); ok {
		ref.Kind = api.Secret
	}
	return ref
}
