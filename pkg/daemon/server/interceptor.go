package server

import (
	"context"
	"runtime/debug"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/klog/v2"

	"github.com/liveconfig-csi/liveconfig/pkg/daemon/logkeys"
)

// csiServices starts the full method names of all CSI services.
const csiServices = "/csi."

// RecordCall counts a finished CSI call and how long it took.
type RecordCall func(method string, err error, duration time.Duration)

// Interceptor puts a logger that names the call into its context, recovers from a panic, counts the
// call if it is one of CSI and not of the kubelet's registration, and writes one line for each that
// fails.
func Interceptor(logger klog.Logger, record RecordCall) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		method := info.FullMethod[strings.LastIndexByte(info.FullMethod, '/')+1:]
		logger := callLogger(logger, method, req)
		start := time.Now()
		response, err := handle(klog.NewContext(ctx, logger), req, handler)
		took := time.Since(start)
		if strings.HasPrefix(info.FullMethod, csiServices) {
			record(info.FullMethod, err, took)
		}
		if err != nil {
			logger.Error(err, "Call failed", logkeys.Code, status.Code(err), logkeys.Duration, took)
			return nil, err
		}
		if served := logger.V(verbosity(method)); served.Enabled() {
			served.Info("Call served", logkeys.Duration, took)
		}
		return response, nil
	}
}

// handle turns a panic into an error of the one call: the driver serves every pod of the node. The
// value of a panic may hold any content, so the caller and the log get only the place.
func handle(ctx context.Context, req any, handler grpc.UnaryHandler) (response any, err error) {
	defer func() {
		if p := recover(); p != nil {
			klog.FromContext(ctx).Error(nil, "The driver panicked", logkeys.Stack, string(debug.Stack()))
			response, err = nil, status.Error(codes.Internal, "the driver panicked; its log has the stack")
		}
	}()
	return handler(ctx, req)
}

// verbosity keeps what a kubelet or a probe asks all day out of the log. A publish is repeated each
// minute for every volume; the code that publishes reports the first one.
func verbosity(method string) int {
	switch method {
	case "NodePublishVolume", "NodeUnpublishVolume":
		return 4
	default:
		return 5
	}
}
