package csidriver_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	"github.com/liveconfig-csi/liveconfig/pkg/daemon/kubeclient"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/csidriver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fixture is a watcher over an API server, for use in a synctest bubble.
type fixture struct {
	*apiServer
	*csidriver.Watcher
	t     *testing.T
	start func()             // Starts Run, once.
	stop  context.CancelFunc // Ends Run's context.
	ended chan error         // Run's result.
	log   ktesting.Buffer
	read  int // How many lines of the log have been compared.
}

// newFixture returns a watcher that runs once it is started, and comes to rest with the test.
func newFixture(t *testing.T) *fixture {
	t.Helper()
	logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true), ktesting.Verbosity(5)))
	sink, ok := logger.GetSink().(ktesting.Underlier)
	if !ok {
		t.Fatalf("the test logger is a %T", logger.GetSink())
	}
	f := &fixture{apiServer: newAPIServer(t), t: t, ended: make(chan error, 1), log: sink.GetBuffer()}
	types, err := kubeclient.New()
	if err != nil {
		t.Fatal(err)
	}
	cfg := &rest.Config{Host: "http://api", QPS: -1}
	client, err := types.Client(cfg, &http.Client{Transport: f.apiServer}, storagev1.SchemeGroupVersion)
	if err != nil {
		t.Fatal(err)
	}
	f.Watcher = csidriver.New(client, types, name)
	ctx, stop := context.WithCancel(klog.NewContext(t.Context(), logger))
	f.stop = stop
	f.start = func() { go func() { f.ended <- f.Run(ctx) }() }
	t.Cleanup(stop)
	return f
}

// bubble runs a test on a fixture in a synctest bubble, beside other tests.
func bubble(t *testing.T, test func(f *fixture)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { test(newFixture(t)) })
}

// pass lets d go by on the bubble's clock.
func pass(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // It takes no time.
}

// longestSilence is more than the watcher waits between two tries, jitter included.
const longestSilence = 11 * time.Second

// right, wrong and missing are the states of an object that is read.
const (
	right   = ""
	wrong   = "Unvouched"
	missing = "Missing"
	unread  = "Unread"
)

// checkNow lets things settle and returns what Check returns, which must not wait.
func (f *fixture) checkNow() error {
	synctest.Wait()
	over, cancel := context.WithCancel(f.t.Context())
	cancel()
	return f.Check(over)
}

// want lets things settle and compares the kind of what Check returns, which must not wait.
func (f *fixture) want(want string) {
	f.t.Helper()
	if got := kindOf(f.t, f.checkNow()); got != want {
		f.t.Errorf("Check = %q, want %q", got, want)
	}
}

// wantError compares the message of what Check returns without waiting.
func (f *fixture) wantError(want string) {
	f.t.Helper()
	if diff := cmp.Diff(want, fmt.Sprint(f.checkNow())); diff != "" {
		f.t.Errorf("Check (-want +got):\n%s", diff)
	}
}

func kindOf(t *testing.T, err error) string {
	t.Helper()
	if err == nil {
		return right
	}
	var e *csidriver.Error
	if !errors.As(err, &e) || e.Name != name {
		t.Errorf("Check = %#v, want an *Error about %s", err, name)
		return fmt.Sprint(err)
	}
	return string(e.Kind)
}

// wantLog lets things settle and compares what has been logged since the last time. Errors are
// left out.
func (f *fixture) wantLog(want ...string) {
	f.t.Helper()
	synctest.Wait()
	var got []string
	entries := f.log.Data()
	for _, e := range entries[f.read:] {
		got = append(got, fmt.Sprintf("%s V%d %s %v", e.Type, e.Verbosity, e.Message, e.WithKVList))
	}
	f.read = len(entries)
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		f.t.Errorf("log (-want +got):\n%s", diff)
	}
}

// skipLog takes what has been logged so far for compared.
func (f *fixture) skipLog() {
	f.t.Helper()
	synctest.Wait()
	f.read = len(f.log.Data())
}

// The lines of the log.
const (
	suffix     = " [driver " + name + "]"
	logRight   = "INFO V0 The kubelet vouches for pods" + suffix
	logWrong   = "ERROR V0 New volumes are refused" + suffix
	logWaiting = "ERROR V0 No new volume can be published yet" + suffix
	logStays   = "ERROR V0 The driver cannot read the CSIDriver object, and uses its last state" + suffix
	logAgain   = "INFO V0 The CSIDriver object is watched again" + suffix
)

// forbidden is what RBAC answers to the verb.
func forbidden(verb string) error {
	return apierrors.NewForbidden(schema.GroupResource{Group: "storage.k8s.io", Resource: "csidrivers"}, "",
		fmt.Errorf("User \"driver\" cannot %s resource \"csidrivers\"", verb))
}

// denied is the trouble of a driver that may do nothing.
func denied() trouble { return trouble{list: forbidden("list"), watch: forbidden("watch")} }

// both is the trouble of a driver whose lists and watches have the same error.
func both(err error) trouble { return trouble{list: err, watch: err} }

// refused is the trouble of a driver that finds no API server.
func refused() trouble {
	return both(&net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)})
}

// overloaded is the trouble of a driver whose API server takes no more requests.
func overloaded() trouble { return both(apierrors.NewServiceUnavailable("overloaded")) }

// unauthorized is the trouble of a driver whose token is not accepted for a while.
func unauthorized() trouble { return both(apierrors.NewUnauthorized("not yet")) }
