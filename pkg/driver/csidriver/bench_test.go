package csidriver_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	"github.com/liveconfig-csi/liveconfig/pkg/driver/csidriver"
)

func TestMain(m *testing.M) {
	// The last of the library's error handlers sleeps until a millisecond after the error before. Under the made-up time
	// of a synctest bubble, which starts in 2000, it would sleep for decades.
	utilruntime.ErrorHandlers = utilruntime.ErrorHandlers[:1]
	goleak.VerifyTestMain(m)
}

// bench is a watcher over an API server, for use in a synctest bubble.
type bench struct {
	*apiServer
	*csidriver.Watcher
	t     *testing.T
	start func()             // Starts Run, once.
	stop  context.CancelFunc // Ends Run's context.
	ended chan error         // Run's result.
	log   ktesting.Buffer
	read  int // How many lines of the log have been compared.
}

// newBench returns a watcher that runs once it is started, and comes to rest with the test.
func newBench(t *testing.T) *bench {
	t.Helper()
	logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true), ktesting.Verbosity(5)))
	sink, ok := logger.GetSink().(ktesting.Underlier)
	if !ok {
		t.Fatalf("the test logger is a %T", logger.GetSink())
	}
	b := &bench{apiServer: newAPIServer(t), t: t, ended: make(chan error, 1), log: sink.GetBuffer()}
	b.Watcher = b.watcher()
	ctx, stop := context.WithCancel(klog.NewContext(t.Context(), logger))
	b.stop = stop
	b.start = func() { go func() { b.ended <- b.Run(ctx) }() }
	t.Cleanup(stop)
	return b
}

// bubble runs a test on a bench in a synctest bubble, beside other tests.
func bubble(t *testing.T, test func(b *bench)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { test(newBench(t)) })
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

// want lets things settle and compares the kind of what Check returns, which must not wait.
func (b *bench) want(want string) {
	b.t.Helper()
	synctest.Wait()
	over, cancel := context.WithCancel(b.t.Context())
	cancel()
	if got := kindOf(b.t, b.Check(over)); got != want {
		b.t.Errorf("Check = %q, want %q", got, want)
	}
}

// wantError compares the message of what Check returns without waiting.
func (b *bench) wantError(want string) {
	b.t.Helper()
	synctest.Wait()
	over, cancel := context.WithCancel(b.t.Context())
	cancel()
	if diff := cmp.Diff(want, fmt.Sprint(b.Check(over))); diff != "" {
		b.t.Errorf("Check (-want +got):\n%s", diff)
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

// wantLog lets things settle and compares what has been logged since the last time. Errors are left out.
func (b *bench) wantLog(want ...string) {
	b.t.Helper()
	synctest.Wait()
	var got []string
	entries := b.log.Data()
	for _, e := range entries[b.read:] {
		got = append(got, fmt.Sprintf("%s V%d %s %v", e.Type, e.Verbosity, e.Message, e.WithKVList))
	}
	b.read = len(entries)
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		b.t.Errorf("log (-want +got):\n%s", diff)
	}
}

// skipLog takes what has been logged so far for compared.
func (b *bench) skipLog() {
	b.t.Helper()
	synctest.Wait()
	b.read = len(b.log.Data())
}

// The lines of the log.
const (
	suffix     = " [driver " + name + "]"
	logRight   = "INFO V0 The kubelet vouches for pods" + suffix
	logWrong   = "ERROR V0 New volumes are refused" + suffix
	logWaiting = "ERROR V0 No new volume can be published yet" + suffix
	logStays   = "ERROR V0 What is known of the CSIDriver object stays as it is" + suffix
	logAgain   = "INFO V0 The CSIDriver object is watched again" + suffix
)

// forbidden is what RBAC answers to the verb.
func forbidden(verb string) error {
	return apierrors.NewForbidden(schema.GroupResource{Group: "storage.k8s.io", Resource: "csidrivers"}, "",
		fmt.Errorf("User \"driver\" cannot %s resource \"csidrivers\"", verb))
}

// denied is the trouble of a driver that may do nothing.
func denied() trouble { return trouble{list: forbidden("list"), watch: forbidden("watch")} }

// refused is the trouble of a driver that finds no API server.
func refused() trouble {
	return trouble{dial: &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}}
}

// overloaded is the trouble of a driver whose API server has none left.
func overloaded() trouble {
	err := apierrors.NewServiceUnavailable("overloaded")
	return trouble{list: err, watch: err}
}

// unauthorized is the trouble of a driver whose token is not accepted for a while.
func unauthorized() trouble {
	err := apierrors.NewUnauthorized("not yet")
	return trouble{list: err, watch: err}
}

// tooLarge is what a server answers that was asked for a version it has not come to yet.
func tooLarge() error {
	err := apierrors.NewTimeoutError("Too large resource version: 101, current: 7", 1)
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge}}
	return err
}
