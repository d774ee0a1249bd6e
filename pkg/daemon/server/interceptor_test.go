package server_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/liveconfig-csi/liveconfig/pkg/daemon/server"
	"github.com/liveconfig-csi/liveconfig/pkg/expect"
)

const publishMethod = "/csi.v1.Node/NodePublishVolume"

// hush is what a request holds and a log must not.
const hush = "s3cr3t-t0ken"

// publishRequest returns a request that is full of what nobody may see.
func publishRequest() *csi.NodePublishVolumeRequest {
	return &csi.NodePublishVolumeRequest{
		VolumeId:      "csi-1",
		Secrets:       map[string]string{"token": hush},
		VolumeContext: map[string]string{"csi.storage.k8s.io/serviceAccount.tokens": hush},
	}
}

// recorder is a logger that stores all messages, and the calls that were counted.
type recorder struct {
	logger klog.Logger
	log    ktesting.Buffer
	calls  []string
}

func newRecorder(t *testing.T) *recorder {
	t.Helper()
	logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true), ktesting.Verbosity(10)))
	underlier, ok := logger.GetSink().(ktesting.Underlier)
	if !ok {
		t.Fatalf("the sink is a %T", logger.GetSink())
	}
	return &recorder{logger: logger, log: underlier.GetBuffer()}
}

func (r *recorder) call(ctx context.Context, method string, req any, handler grpc.UnaryHandler) (any, error) {
	record := func(method string, err error, duration time.Duration) {
		if duration < 0 {
			method += " took negative time"
		}
		r.calls = append(r.calls, fmt.Sprintf("%s %s", method, status.Code(err)))
	}
	return server.Interceptor(r.logger, record)(ctx, req, &grpc.UnaryServerInfo{FullMethod: method}, handler)
}

// lines returns what was logged, without the times.
func (r *recorder) lines() []string {
	var lines []string
	for _, e := range r.log.Data() {
		line := fmt.Sprintf("%s V%d %s", e.Type, e.Verbosity, e.Message)
		if e.Err != nil {
			line += fmt.Sprintf(" err=%q", e.Err)
		}
		kv := append(append([]any(nil), e.WithKVList...), e.ParameterKVList...)
		for i := 0; i+1 < len(kv); i += 2 {
			if kv[i] != "duration" && kv[i] != "stack" {
				line += fmt.Sprintf(" %s=%v", kv[i], kv[i+1])
			}
		}
		lines = append(lines, line)
	}
	return lines
}

func (r *recorder) check(t *testing.T, lines, calls []string) {
	t.Helper()
	if diff := cmp.Diff(lines, r.lines()); diff != "" {
		t.Errorf("log lines (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(calls, r.calls); diff != "" {
		t.Errorf("counted calls (-want +got):\n%s", diff)
	}
	if strings.Contains(r.log.String(), hush) {
		t.Errorf("the log holds what the request does:\n%s", r.log.String())
	}
}

// TestInterceptorLogsAndCounts all calls, but counts no calls of the kubelet's registration: they are no operations of a plugin.
func TestInterceptorLogsAndCounts(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		method      string
		req         any
		err         error
		line, count string // No count: the call is not counted.
	}{
		"a publish is repeated each minute": {
			method: publishMethod, req: publishRequest(),
			line: "INFO V4 Call served method=NodePublishVolume volumeID=csi-1", count: publishMethod + " OK",
		},
		"an unpublish is a step": {
			method: "/csi.v1.Node/NodeUnpublishVolume", req: &csi.NodeUnpublishVolumeRequest{VolumeId: "csi-2"},
			line:  "INFO V4 Call served method=NodeUnpublishVolume volumeID=csi-2",
			count: "/csi.v1.Node/NodeUnpublishVolume OK",
		},
		"a probe is less": {
			method: "/csi.v1.Identity/Probe", req: &csi.ProbeRequest{},
			line: "INFO V5 Call served method=Probe", count: "/csi.v1.Identity/Probe OK",
		},
		"a failure is one line": {
			method: publishMethod, req: publishRequest(), err: status.Error(codes.FailedPrecondition, `configmap "x" not found`),
			line: `ERROR V0 Call failed err="rpc error: code = FailedPrecondition desc = configmap \"x\" not found"` +
				` method=NodePublishVolume volumeID=csi-1 code=FailedPrecondition`,
			count: publishMethod + " FailedPrecondition",
		},
		"a failure of a probe is one, too": {
			method: "/csi.v1.Identity/Probe", req: &csi.ProbeRequest{}, err: errors.New("no status"),
			line: `ERROR V0 Call failed err="no status" method=Probe code=Unknown`, count: "/csi.v1.Identity/Probe Unknown",
		},
		"a question of the kubelet's registration": {
			method: registerapi.Registration_GetInfo_FullMethodName, req: &registerapi.InfoRequest{},
			line: "INFO V5 Call served method=GetInfo",
		},
		"its verdict": {
			method: registerapi.Registration_NotifyRegistrationStatus_FullMethodName, req: &registerapi.RegistrationStatus{},
			line: "INFO V5 Call served method=NotifyRegistrationStatus",
		},
		"a failure of it": {
			method: registerapi.Registration_GetInfo_FullMethodName, req: &registerapi.InfoRequest{}, err: status.Error(codes.Canceled, "too late"),
			line: `ERROR V0 Call failed err="rpc error: code = Canceled desc = too late" method=GetInfo code=Canceled`,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRecorder(t)
			want := &csi.NodePublishVolumeResponse{}
			got, err := r.call(t.Context(), tc.method, tc.req, func(_ context.Context, req any) (any, error) {
				if req != tc.req {
					t.Errorf("the handler got %v, want the request", req)
				}
				return want, tc.err
			})
			if !errors.Is(err, tc.err) {
				t.Errorf("error = %v, want the handler's %v", err, tc.err)
			}
			if tc.err == nil && got != any(want) {
				t.Errorf("response = %v, want the handler's", got)
			}
			if tc.err != nil && got != nil {
				t.Errorf("response = %v beside an error, want nil", got)
			}
			var counts []string
			if tc.count != "" {
				counts = []string{tc.count}
			}
			r.check(t, []string{tc.line}, counts)
		})
	}
}

func TestInterceptorGivesTheHandlerALogger(t *testing.T) {
	t.Parallel()
	r := newRecorder(t)
	_, err := r.call(t.Context(), publishMethod, publishRequest(), func(ctx context.Context, _ any) (any, error) {
		klog.FromContext(ctx).Info("At work")
		return nil, nil //nolint:nilnil // The interceptor does not look.
	})
	expect.NoError(t, err)
	r.check(t, []string{
		"INFO V0 At work method=NodePublishVolume volumeID=csi-1",
		"INFO V4 Call served method=NodePublishVolume volumeID=csi-1",
	}, []string{publishMethod + " OK"})
}

func TestInterceptorRecoversFromAPanic(t *testing.T) {
	t.Parallel()
	r := newRecorder(t)
	response, err := r.call(t.Context(), publishMethod, publishRequest(), func(context.Context, any) (any, error) {
		panic("cannot handle " + hush)
	})
	const text = "the driver panicked; its log has the stack"
	if response != nil || status.Code(err) != codes.Internal || status.Convert(err).Message() != text {
		t.Errorf("response and error = %v, %v, want nil, %s and %q", response, err, codes.Internal, text)
	}
	r.check(t, []string{
		"ERROR V0 The driver panicked method=NodePublishVolume volumeID=csi-1",
		`ERROR V0 Call failed err="rpc error: code = Internal desc = the driver panicked; its log has the stack"` +
			` method=NodePublishVolume volumeID=csi-1 code=Internal`,
	}, []string{publishMethod + " Internal"})
	if !strings.Contains(r.log.String(), "TestInterceptorRecoversFromAPanic") {
		t.Errorf("the log does not say where the panic was:\n%s", r.log.String())
	}
}

func TestServerServesOnAfterAPanic(t *testing.T) {
	t.Parallel()
	l, path := listen(t)
	r := newRecorder(t)
	interceptor := server.Interceptor(r.logger, func(string, error, time.Duration) {})
	panics := make(chan bool, 2)
	panics <- true
	panics <- false
	s := newServer(func(context.Context) error {
		if <-panics {
			panic("once")
		}
		return nil
	}, grpc.UnaryInterceptor(interceptor))
	stop, served := serve(t, l, s)
	conn := dial(t, path)
	if err := <-probe(t.Context(), conn); status.Code(err) != codes.Internal {
		t.Errorf("the call that panics = %v, want %s", err, codes.Internal)
	}
	if err := <-probe(t.Context(), conn); err != nil {
		t.Errorf("the next call = %v, want nil", err)
	}
	stop()
	if err := <-served; err != nil {
		t.Error(err)
	}
}
