package source_test

import (
	"context"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/api/identity"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/budget"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/objectwatch/fakeserver"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/source"
)

func TestMain(m *testing.M) { os.Exit(fakeserver.Main(m)) }

var (
	web   = api.Ref{Kind: api.ConfigMap, Namespace: "default", Name: "web"}
	other = api.Ref{Kind: api.ConfigMap, Namespace: "default", Name: "other"}
	cert  = api.Ref{Kind: api.Secret, Namespace: "default", Name: "cert"}
)

// byDriver returns the key of a ref that the driver reads.
func byDriver(ref api.Ref) source.Key { return source.Key{Identity: identity.Driver(), Ref: ref} }

func configMap(ref api.Ref, value string) *corev1.ConfigMap { return fakeserver.ConfigMap(ref, value) }

// immutable returns one that cannot change.
func immutable(ref api.Ref, value string) *corev1.ConfigMap {
	o := configMap(ref, value)
	o.Immutable = new(true)
	return o
}

// bench is a cache over a cluster, for use in a synctest bubble.
type bench struct {
	*fakeserver.Server
	*source.Cache
	t    *testing.T
	id   identity.Identity // The reader.
	room *budget.Budget    // For the objects: more than a test needs.
	log  ktesting.Buffer   // Of the cache.

	ctx     context.Context // Of the cache.
	stop    context.CancelFunc
	running sync.WaitGroup // Counts the cache while it runs.

	// The fields below are guarded by the server's lock.
	clients   []identity.Identity // For whom clients were asked for.
	changes   []source.Key
	hook      func(source.Key)            // Called at each change.
	allow     func(context.Context) error // Answers Config.Allow.
	isDenied  bool                        // Answers Config.Denies, with deniesErr.
	deniesErr error
}

// recheck is the recheck interval of most tests.
const recheck = 3 * time.Minute

// newBench returns a cache over a cluster, whose objects the identity reads. At the end of the
// test it stops and must come to rest.
func newBench(t *testing.T, id identity.Identity, recheck time.Duration) *bench {
	t.Helper()
	logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true), ktesting.Verbosity(4)))
	sink, ok := logger.GetSink().(ktesting.Underlier)
	if !ok {
		t.Fatalf("the test logger is a %T", logger.GetSink())
	}
	b := &bench{
		Server: fakeserver.New(t), t: t, id: id, room: budget.New(1 << 40), log: sink.GetBuffer(),
		hook: func(source.Key) {}, allow: func(context.Context) error { return nil }, isDenied: true,
	}
	ctx, stop := context.WithCancel(klog.NewContext(t.Context(), logger))
	b.ctx, b.stop = ctx, stop
	b.Cache = source.New(source.Config{
		Client: func(id identity.Identity) (rest.Interface, error) {
			b.Set(func() { b.clients = append(b.clients, id) })
			return b.Client(), nil
		},
		Types:   b.Front.Types,
		Allow:   b.mayRead,
		Denies:  b.isSure,
		Changed: b.note,
		Recheck: recheck,
		Room:    b.room.Part(func(int64) {}),
	})
	t.Cleanup(func() {
		stop()
		b.running.Wait()
		if got := b.StillOpen(); got != 0 {
			t.Errorf("%d bodies of watches are not closed, or more than once", got)
		}
	})
	return b
}

// serve has the cache run until the test ends.
func (b *bench) serve() {
	b.running.Go(func() { _ = b.Run(b.ctx) }) // It returns nil.
	b.settle()
}

func (b *bench) note(key source.Key) {
	var hook func(source.Key)
	b.Set(func() { b.changes, hook = append(b.changes, key), b.hook })
	hook(key)
}

func (b *bench) mayRead(ctx context.Context, id identity.Identity, ref api.Ref) error {
	b.wantAbout(fakeserver.Asking, id, ref)
	var allow func(context.Context) error
	b.Set(func() { allow = b.allow })
	return allow(ctx)
}

func (b *bench) isSure(_ context.Context, id identity.Identity, ref api.Ref) (is bool, err error) {
	b.wantAbout(fakeserver.Asserting, id, ref)
	b.Set(func() { is, err = b.isDenied, b.deniesErr })
	return is, err
}

// wantAbout records a question, which must be about the reader.
func (b *bench) wantAbout(verb string, id identity.Identity, ref api.Ref) {
	b.Ask(verb, ref)
	if id != b.id {
		b.t.Errorf("%s %s was asked about %s, want it asked about %s", verb, ref, id, b.id)
	}
}

// onDenies sets the answer of [source.Config.Denies].
func (b *bench) onDenies(is bool, err error) {
	b.Set(func() { b.isDenied, b.deniesErr = is, err })
}

// onAllow sets [source.Config.Allow] from now on.
func (b *bench) onAllow(allow func(context.Context) error) { b.Set(func() { b.allow = allow }) }

// deny answers that with the error.
func (b *bench) deny(err error) { b.onAllow(func(context.Context) error { return err }) }

// onChange sets what is called at each change.
func (b *bench) onChange(hook func(source.Key)) { b.Set(func() { b.hook = hook }) }

// key returns the key of a ref for the reader.
func (b *bench) key(ref api.Ref) source.Key { return source.Key{Identity: b.id, Ref: ref} }

// acquire takes the ref.
func (b *bench) acquire(ref api.Ref) (giveBack func()) {
	b.t.Helper()
	giveBack, err := b.Acquire(b.key(ref))
	if err != nil {
		b.t.Fatalf("Acquire(%s) = %v, want no error", ref, err)
	}
	return giveBack
}

// settle lets everything happen that can happen without time passing.
func (b *bench) settle() {
	b.t.Helper()
	synctest.Wait()
}

// wantChanges lets things settle and compares the number of changes of the ref, and of nothing
// else, since the last time.
func (b *bench) wantChanges(ref api.Ref, want int) {
	b.t.Helper()
	b.settle()
	b.wantChangesOf(b.key(ref), want)
}

func (b *bench) wantChangesOf(key source.Key, want int) {
	b.t.Helper()
	var changes []source.Key
	b.Set(func() { changes, b.changes = b.changes, nil })
	if !slices.Equal(changes, slices.Repeat([]source.Key{key}, want)) {
		b.t.Errorf("changes: %v, want %d of %s", changes, want, key)
	}
}

// wantNow compares what is known of web, and the number of its changes since the last time.
func (b *bench) wantNow(want known, changes int) {
	b.t.Helper()
	b.want(web, want)
	b.wantChanges(web, changes)
}

// wantAfter is [bench.wantNow] after d.
func (b *bench) wantAfter(d time.Duration, want known, changes int) {
	b.t.Helper()
	pass(d)
	b.wantNow(want, changes)
}

// known is a snapshot without what differs from run to run.
type known struct {
	Synced, Found bool
	UID, Version  string
	Immutable     bool
	Data          map[string]string
	Err           string
	Revoked       bool
	Polled        bool
}

// want compares what is known of the ref.
func (b *bench) want(ref api.Ref, want known) {
	b.t.Helper()
	b.settle()
	got := b.known(ref)
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		b.t.Errorf("Get(%s) (-want +got):\n%s", ref, diff)
	}
}

func (b *bench) known(ref api.Ref) known {
	s := b.Get(b.key(ref))
	k := known{
		Synced: s.Synced, Found: s.Found, Revoked: s.Revoked, Polled: s.Polled,
		UID: s.Content.UID, Version: s.Content.ResourceVersion, Immutable: s.Content.Immutable, Data: map[string]string{},
	}
	for key, value := range s.Content.Data {
		k.Data[key] = string(value)
	}
	if s.Err != nil {
		k.Err = fakeserver.TextOf(s.Err)
	}
	return k
}

// with returns what is known when the error has come on top.
func (k known) with(err error) known {
	k.Err = fakeserver.TextOf(err)
	return k
}

// revoked returns what is known when denials count.
func (k known) revoked() known {
	k.Revoked = true
	return k
}

// holding returns what is known once the object has been read and nothing is wrong.
func holding(o *corev1.ConfigMap) known {
	return known{
		Synced: true, Found: true, UID: string(o.UID), Version: o.ResourceVersion,
		Immutable: o.Immutable != nil && *o.Immutable, Data: o.Data,
	}
}

// putMap puts a config map and returns it as it then is.
func (b *bench) putMap(o *corev1.ConfigMap) *corev1.ConfigMap {
	b.t.Helper()
	b.Put(o)
	return o
}

// wantWatches compares how many watches of the ref the cluster has open, and how many the cache
// has in all.
func (b *bench) wantWatches(ref api.Ref, want, inAll int) {
	b.t.Helper()
	b.settle()
	if got := b.Open(ref); got != want {
		b.t.Errorf("open watches of %s: %d, want %d", ref, got, want)
	}
	if got := b.Watches(); got != inAll {
		b.t.Errorf("Watches = %d, want %d", got, inAll)
	}
}

// pass lets d go by on the bubble's clock.
func pass(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // It takes no time.
}

// early runs a test on a bench whose cache does not run yet in a synctest bubble, beside other
// tests.
func early(t *testing.T, id identity.Identity, recheck time.Duration, test func(b *bench)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { test(newBench(t, id, recheck)) })
}

// bubble runs a test on a bench in a synctest bubble, beside other tests. The driver reads.
func bubble(t *testing.T, test func(b *bench)) {
	t.Helper()
	t.Parallel()
	inBubble(t, identity.Driver(), recheck, test)
}

// bubbleOf is [bubble] for another reader.
func bubbleOf(t *testing.T, id identity.Identity, test func(b *bench)) {
	t.Helper()
	t.Parallel()
	inBubble(t, id, recheck, test)
}

// bubbleWith is [bubbleOf] for another recheck.
func bubbleWith(t *testing.T, id identity.Identity, recheck time.Duration, test func(b *bench)) {
	t.Helper()
	t.Parallel()
	inBubble(t, id, recheck, test)
}

// inBubble runs a test on a bench whose cache runs.
func inBubble(t *testing.T, id identity.Identity, recheck time.Duration, test func(b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, id, recheck)
		b.serve()
		test(b)
	})
}

// each runs a test of a reader for each case.
func each[T any](t *testing.T, id identity.Identity, cases map[string]T, test func(b *bench, tt T)) {
	t.Helper()
	t.Parallel()
	runEach(t, id, cases, test)
}

func runEach[T any](t *testing.T, id identity.Identity, cases map[string]T, test func(b *bench, tt T)) {
	t.Helper()
	for name, tt := range cases {
		t.Run(name, func(t *testing.T) {
			bubbleOf(t, id, func(b *bench) { test(b, tt) })
		})
	}
}
