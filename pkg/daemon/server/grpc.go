package server

import "google.golang.org/grpc"

const (
	// streamWorkers are goroutines that wait for calls. A call in a new goroutine grows a new stack
	// each time. When all are busy, calls get one.
	streamWorkers = 2
	// windowSize is how many bytes may be under way, which is the least that gRPC takes. One that
	// is fixed has no pings sent beside each call to find out how many more would be good.
	windowSize = 64 << 10
	// bufferSize is as much as a publish or its answer needs. A kubelet makes a connection for each
	// call, with new buffers.
	bufferSize = 4 << 10
)

// NewGRPC returns a server for what calls a CSI driver: one client on the same machine, with small
// messages, mostly one at a time.
func NewGRPC(options ...grpc.ServerOption) *grpc.Server {
	fast := []grpc.ServerOption{
		grpc.NumStreamWorkers(streamWorkers), grpc.StaticStreamWindowSize(windowSize),
		grpc.ReadBufferSize(bufferSize), grpc.WriteBufferSize(bufferSize),
	}
	return grpc.NewServer(append(fast, options...)...)
}
