package main

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	typedcoordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	metadatafake "k8s.io/client-go/metadata/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	"github.com/liveconfig-csi/liveconfig/pkg/expect"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout"
)

// office is a process that works while it holds a lease, and where the leases are kept. It lives in a bubble of synctest,
// which fails the test when a goroutine is left.
type office struct {
	t *testing.T
	*parts

	registry *registry
	// watched is the last watch of ConfigMaps that the process has opened: it works while that goes on.
	watched atomic.Pointer[watch.RaceFreeFakeWatcher]
	// end is what a signal does, and ended what comes of it.
	end   context.CancelFunc
	ended chan error
}

// open runs a test with an office whose lease has a holder, or none, and whose process has begun.
func open(t *testing.T, holder string, test func(o *office)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { test(newOffice(t, holder)) })
}

func newOffice(t *testing.T, holder string) *office {
	t.Helper()
	client := fake.NewClientset()
	o := &office{t: t, ended: make(chan error, 1), registry: newRegistry(t, client)}
	if holder != "" {
		o.registry.hold(holder)
	}
	client.PrependWatchReactor("configmaps", func(clienttesting.Action) (bool, watch.Interface, error) {
		w := watch.NewRaceFreeFake()
		o.watched.Store(w)
		return true, w, nil
	})
	o.parts = newFakeParts(t, o.registry)
	ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), klog.Logger{}))
	o.end = cancel
	go func() { o.ended <- o.work(ctx, defaults()) }()
	synctest.Wait()
	return o
}

func newFakeParts(t *testing.T, client kubernetes.Interface) *parts {
	t.Helper()
	scheme := runtime.NewScheme()
	expect.NoError(t, metav1.AddMetaToScheme(scheme))
	p := &parts{client: client, registry: prometheus.NewRegistry(), lease: leaderelection.NewLeaderHealthzAdaptor(leaseDuration)}
	var err error
	p.controller, err = rollout.New(rollout.Config{
		Client: client, Metadata: metadatafake.NewSimpleMetadataClient(scheme), Secrets: true, Rate: 1,
		Events: &record.FakeRecorder{}, Metrics: rollout.NewMetrics(p.registry),
	})
	expect.NoError(t, err)
	return p
}

// after waits, and lets everything happen that happens meanwhile.
func (o *office) after(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func (o *office) wantWorking(want bool) {
	o.t.Helper()
	w := o.watched.Load()
	got := w != nil && !w.IsStopped()
	if isRight := got == want; !isRight {
		o.t.Errorf("the process works: %t, want %t", got, want)
	}
}

func (o *office) wantHolder(want string) {
	o.t.Helper()
	o.registry.api.mu.Lock()
	defer o.registry.api.mu.Unlock()
	if got := *o.registry.api.lease.Spec.HolderIdentity; got != want {
		o.t.Errorf("the lease is held by %q, want %q", got, want)
	}
}

// wantEnd ends the process, and wants an error that begins so, or none.
func (o *office) wantEnd(want string) {
	o.t.Helper()
	o.end()
	err := <-o.ended
	if want == "" && err != nil || want != "" && (err == nil || !strings.HasPrefix(err.Error(), want)) {
		o.t.Errorf("work = %v, want %q", err, want)
	}
	synctest.Wait()
	o.wantWorking(false)
}

func (o *office) wantStatus(path string, want int) {
	o.t.Helper()
	recorder := httptest.NewRecorder()
	o.mux().ServeHTTP(recorder, httptest.NewRequestWithContext(o.t.Context(), http.MethodGet, path, nil))
	if recorder.Code != want {
		o.t.Errorf("GET %s = %d, want %d", path, recorder.Code, want)
	}
}

// registry is a client whose leases an API server keeps, from which nobody hears any more once away is closed.
type registry struct {
	kubernetes.Interface

	api    *apiServer
	leases typedcoordinationv1.CoordinationV1Interface
	away   chan struct{}
	// stuck reports that a request without an answer is not given up either.
	stuck bool
}

func newRegistry(t *testing.T, client kubernetes.Interface) *registry {
	t.Helper()
	r := &registry{Interface: client, api: &apiServer{t: t, held: make(chan struct{}), agents: map[string]bool{}}, away: make(chan struct{})}
	var err error
	r.leases, err = typedcoordinationv1.NewForConfig(&rest.Config{Host: "http://api", QPS: -1, Transport: r})
	expect.NoError(t, err)
	return r
}

// IsWatchListSemanticsUnSupported shows informers how to fill their caches from a fake.
func (r *registry) IsWatchListSemanticsUnSupported() bool { return true }

func (r *registry) CoordinationV1() typedcoordinationv1.CoordinationV1Interface { return r.leases }

// RoundTrip is [http.RoundTripper].
func (r *registry) RoundTrip(request *http.Request) (*http.Response, error) {
	select {
	case <-r.away:
	default:
		recorder := httptest.NewRecorder()
		r.api.ServeHTTP(recorder, request)
		return recorder.Result(), nil
	}
	ctx := request.Context()
	if r.stuck {
		ctx = context.WithoutCancel(ctx)
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(time.Hour):
		return nil, errors.New("the connection was lost")
	}
}

// hold writes down who holds the lease.
func (r *registry) hold(holder string) {
	r.api.mu.Lock()
	defer r.api.mu.Unlock()
	now := &metav1.MicroTime{Time: time.Now()}
	r.api.lease = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "liveconfig-controller", ResourceVersion: holder}}
	r.api.lease.Spec = coordinationv1.LeaseSpec{
		HolderIdentity: &holder, LeaseDurationSeconds: new(int32(leaseDuration / time.Second)), RenewTime: now, AcquireTime: now,
	}
}

// TestLeaderGivesTheLeaseBack so that another need not wait for its end.
func TestLeaderGivesTheLeaseBack(t *testing.T) {
	open(t, "", func(o *office) {
		o.wantHolder("controller-0")
		o.wantWorking(true)
		o.after(time.Minute) // It renews.
		o.wantWorking(true)
		o.wantStatus("/readyz", http.StatusOK)
		o.wantStatus("/healthz", http.StatusOK)
		o.wantEnd("")
		o.wantHolder("")
	})
}

// TestStandbyWaits: it is ready and does nothing. When it is asked to end, it leaves the lease alone.
func TestStandbyWaits(t *testing.T) {
	open(t, "controller-1", func(o *office) {
		o.after(leaseDuration - time.Second)
		o.wantWorking(false)
		o.wantStatus("/readyz", http.StatusOK)
		o.wantEnd("")
		o.wantHolder("controller-1")
	})
}

// TestStandbyTakesOver from a leader that has died.
func TestStandbyTakesOver(t *testing.T) {
	open(t, "controller-1", func(o *office) {
		o.after(leaseDuration + 3*retryPeriod)
		o.wantWorking(true)
		o.wantHolder("controller-0")
		o.wantEnd("")
	})
}

// TestLeaderThatHearsNothingStops before another one may begin, which is when the lease has not been renewed for its
// duration, and its process ends with an error.
func TestLeaderThatHearsNothingStops(t *testing.T) {
	open(t, "", func(o *office) {
		o.after(time.Minute)
		close(o.registry.away) // It has just renewed, and finds out when it does so next.
		o.after(renewDeadline - time.Second)
		o.wantWorking(true)
		o.after(leaseDuration - renewDeadline)
		o.wantWorking(false)
		o.after(leaseDuration)
		o.wantEnd("the lease was lost: ")
	})
}

// TestLeaseThatIsTakenAway, which somebody does by hand, ends the process with an error.
func TestLeaseThatIsTakenAway(t *testing.T) {
	open(t, "", func(o *office) {
		o.registry.hold("controller-1")
		o.after(leaseDuration)
		o.wantEnd("the lease was lost: ")
		o.wantHolder("controller-1")
	})
}

// TestHealth ends the process for whom the lease was lost and who has not noticed.
func TestHealth(t *testing.T) {
	open(t, "", func(o *office) {
		o.after(time.Minute)
		o.registry.stuck = true
		close(o.registry.away)
		o.after(leaseDuration)
		o.wantStatus("/healthz", http.StatusOK)
		o.after(leaseDuration + time.Second)
		o.wantStatus("/healthz", http.StatusServiceUnavailable)
		o.after(3 * time.Hour) // Each of its requests takes one to fail.
		o.wantEnd("the lease was lost: ")
	})
}
