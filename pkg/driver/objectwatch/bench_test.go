package objectwatch_test

import (
	"context"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/objectwatch"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/objectwatch/fakeserver"
)

func TestMain(m *testing.M) { os.Exit(fakeserver.Main(m)) }

var (
	web   = api.Ref{Kind: api.ConfigMap, Namespace: "default", Name: "web"}
	other = api.Ref{Kind: api.ConfigMap, Namespace: "default", Name: "other"}
	cert  = api.Ref{Kind: api.Secret, Namespace: "default", Name: "cert"}
)

// How long a follower waits at first before it tries again, without jitter, and more than it ever
// waits.
const (
	firstRetry     = 200 * time.Millisecond
	longestSilence = 11 * time.Second
)

func configMap(ref api.Ref, value string) *corev1.ConfigMap { return fakeserver.ConfigMap(ref, value) }

// bench follows objects of an API server, for use in a synctest bubble.
type bench struct {
	*fakeserver.Server
	*objectwatch.Group
	t      *testing.T
	client rest.Interface
	kinds  map[api.Kind]*objectwatch.Kind
	reopen time.Duration
	log    ktesting.Buffer
	seen   map[api.Ref]*handler
}

// newBench returns followers that run until the end of the test, and must then come to rest.
func newBench(t *testing.T, reopen time.Duration) *bench {
	t.Helper()
	logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true), ktesting.Verbosity(4)))
	sink, ok := logger.GetSink().(ktesting.Underlier)
	if !ok {
		t.Fatalf("the test logger is a %T", logger.GetSink())
	}
	server := fakeserver.New(t)
	b := &bench{
		Server: server, Group: objectwatch.New(server.Front.Types), t: t, client: server.Client(), reopen: reopen,
		kinds: map[api.Kind]*objectwatch.Kind{
			api.ConfigMap: {Name: "configmap", Object: &corev1.ConfigMap{}, List: &corev1.ConfigMapList{}},
			api.Secret:    {Name: "secret", Object: &corev1.Secret{}, List: &corev1.SecretList{}},
		},
		log: sink.GetBuffer(), seen: map[api.Ref]*handler{},
	}
	ctx, stop := context.WithCancel(klog.NewContext(t.Context(), logger))
	var running sync.WaitGroup
	running.Go(func() { _ = b.Run(ctx) }) // It returns nil.
	t.Cleanup(func() {
		stop()
		running.Wait()
		if got := b.StillOpen(); got != 0 {
			t.Errorf("%d bodies of watches are not closed, or more than once", got)
		}
	})
	b.settle()
	return b
}

// acquire follows an object.
func (b *bench) acquire(ref api.Ref) (giveBack func()) {
	b.t.Helper()
	h := &handler{}
	b.seen[ref] = h
	f := b.Follower(objectwatch.Target{
		Client: b.client, Kind: b.kinds[ref.Kind], Namespace: ref.Namespace, Name: ref.Name, Reopen: b.reopen,
	}, h)
	f.Start()
	return f.Stop
}

// settle lets everything happen that can happen without time passing.
func (b *bench) settle() {
	b.t.Helper()
	synctest.Wait()
}

// known is what a follower has reported of an object.
type known struct {
	Synced, Found bool
	UID, Version  string
	Data          map[string]string
	Err           string
}

// holding returns what is known once the object has been read and nothing is wrong.
func holding(o *corev1.ConfigMap) known {
	return known{Synced: true, Found: true, UID: string(o.UID), Version: o.ResourceVersion, Data: o.Data}
}

// handler is an [objectwatch.Handler] that takes everything.
type handler struct {
	mu      sync.Mutex // Guards the fields below.
	now     known
	err     error
	changes int
}

// Allow is [objectwatch.Handler].
func (*handler) Allow(context.Context) error { return nil }

// Found is [objectwatch.Handler].
func (h *handler) Found(o metav1.Object) *objectwatch.Pause {
	next := known{Synced: true, Found: true, UID: string(o.GetUID()), Version: o.GetResourceVersion()}
	if m, ok := o.(*corev1.ConfigMap); ok {
		next.Data = m.Data
	}
	h.become(next)
	return nil
}

// Missing is [objectwatch.Handler].
func (h *handler) Missing() { h.become(known{Synced: true}) }

// become counts a change, unless the object is as it was.
func (h *handler) become(next known) {
	h.mu.Lock()
	defer h.mu.Unlock()
	isSame := h.now.Synced && h.now.Found == next.Found && h.now.UID == next.UID && h.now.Version == next.Version
	if isSame {
		return
	}
	h.now, h.changes = next, h.changes+1
}

// Outcome is [objectwatch.Handler]. An error with another text is no news, if it has the same reason.
func (h *handler) Outcome(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if (h.err == nil) != (err == nil) || apierrors.ReasonForError(h.err) != apierrors.ReasonForError(err) {
		h.changes++
	}
	h.err = err
}

// known returns what is known, and the last error.
func (h *handler) known() (known, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	k := h.now
	if h.err != nil {
		k.Err = fakeserver.TextOf(h.err)
	}
	return k, h.err
}

// takeChanges returns how many there were since the last time.
func (h *handler) takeChanges() (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	n, h.changes = h.changes, 0
	return n
}

// want compares what is known of the ref.
func (b *bench) want(ref api.Ref, want known) {
	b.t.Helper()
	b.settle()
	got, _ := b.seen[ref].known()
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		b.t.Errorf("what is known of %s (-want +got):\n%s", ref, diff)
	}
}

// wantChanges lets things settle and compares the number of changes of web since the last time.
func (b *bench) wantChanges(want int) {
	b.t.Helper()
	b.settle()
	if got := b.seen[web].takeChanges(); got != want {
		b.t.Errorf("%d changes of %s, want %d", got, web, want)
	}
}

// wantNow compares what is known of web, and the number of its changes since the last time.
func (b *bench) wantNow(want known, changes int) {
	b.t.Helper()
	b.want(web, want)
	b.wantChanges(changes)
}

// putMap puts a config map and returns it as it then is.
func (b *bench) putMap(o *corev1.ConfigMap) *corev1.ConfigMap {
	b.t.Helper()
	b.Put(o)
	return o
}

// wantWatches wants that the API server has one watch of web open, and so many in all.
func (b *bench) wantWatches(inAll int) {
	b.t.Helper()
	b.settle()
	if got := b.Open(web); got != 1 {
		b.t.Errorf("open watches of %s: %d, want 1", web, got)
	}
	if got := b.OpenInAll(); got != inAll {
		b.t.Errorf("open watches: %d, want %d", got, inAll)
	}
}

// pass lets d go by on the bubble's clock.
func pass(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // It takes no time.
}

// bubble runs a test on a bench in a synctest bubble, beside other tests.
func bubble(t *testing.T, test func(b *bench)) {
	t.Helper()
	t.Parallel()
	inBubble(t, objectwatch.QuietTime, test)
}

// bubbleWith is [bubble] with watches that are opened again after so long.
func bubbleWith(t *testing.T, reopen time.Duration, test func(b *bench)) {
	t.Helper()
	t.Parallel()
	inBubble(t, reopen, test)
}

func inBubble(t *testing.T, reopen time.Duration, test func(b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(newBench(t, reopen)) })
}

// each runs a test for each case.
func each[T any](t *testing.T, cases map[string]T, test func(b *bench, tt T)) {
	t.Helper()
	t.Parallel()
	runEach(t, cases, test)
}

func runEach[T any](t *testing.T, cases map[string]T, test func(b *bench, tt T)) {
	t.Helper()
	for name, tt := range cases {
		t.Run(name, func(t *testing.T) { bubble(t, func(b *bench) { test(b, tt) }) })
	}
}
