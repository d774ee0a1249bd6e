package server_test

import (
	"context"
	"net"
	"runtime/metrics"
	"sync/atomic"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"k8s.io/klog/v2"

	"github.com/liveconfig-csi/liveconfig/pkg/daemon/server"
)

// TestGuardOfTheInterceptor counts what each call makes on the heap on its way to the driver and back: a log line is put
// together when it is written, and most calls write none.
func TestGuardOfTheInterceptor(t *testing.T) { // Not parallel: whatever else is made would be counted.
	const most = 3
	intercept := server.Interceptor(klog.Background(), func(string, error, time.Duration) {})
	request, response := any(publishRequest()), any(&csi.NodePublishVolumeResponse{})
	info := &grpc.UnaryServerInfo{FullMethod: publishMethod}
	handler := func(ctx context.Context, _ any) (any, error) { return response, ctx.Err() }
	var failed error
	got := testing.AllocsPerRun(100, func() {
		if _, err := intercept(t.Context(), request, info, handler); err != nil {
			failed = err
		}
	})
	if got > most || failed != nil {
		t.Errorf("a call makes %v objects on the heap (%v), want %v", got, failed, most)
	}
}

// TestGuardOfAnEmptyCall counts what a call takes that asks for nothing: no separate goroutine, whose stack would grow from
// the smallest, and no bytes but the question's and the answer's.
func TestGuardOfAnEmptyCall(t *testing.T) { // Not parallel: the goroutines of the whole program are counted.
	const calls, bytesIn, bytesOut = 50, 30, 36
	l, path := listen(t)
	counted := &countingListener{Listener: l}
	stop, served := serve(t, counted, newServer(answer))
	conn, err := grpc.NewClient("unix://"+path, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithStaticStreamWindowSize(64<<10)) // It sends no pings itself.
	must(t, err)
	defer conn.Close()
	call := func() {
		if _, err := csi.NewIdentityClient(conn).Probe(t.Context(), &csi.ProbeRequest{}); err != nil {
			t.Fatal(err)
		}
	}
	for range calls { // Both sides learn each other's headers.
		call()
	}
	made, in, out := goroutinesMade(t), counted.in.Load(), counted.out.Load()
	for range calls {
		call()
	}
	if got := goroutinesMade(t) - made; got > calls/10 { // The program has a few others.
		t.Errorf("%d calls made %d goroutines, want none", calls, got)
	}
	if got := counted.in.Load() - in; got != calls*bytesIn {
		t.Errorf("%d calls took %d bytes to the driver, want %d each", calls, got, bytesIn)
	}
	if got := counted.out.Load() - out; got != calls*bytesOut {
		t.Errorf("%d calls took %d bytes from the driver, want %d each", calls, got, bytesOut)
	}
	stop()
	if err := <-served; err != nil {
		t.Error(err)
	}
}

func goroutinesMade(t *testing.T) uint64 {
	t.Helper()
	sample := []metrics.Sample{{Name: "/sched/goroutines-created:goroutines"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// countingListener counts the bytes of all its connections.
type countingListener struct {
	net.Listener

	in, out atomic.Int64
}

// Accept is [net.Listener].
func (l *countingListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	return countingConn{conn, l}, err
}

type countingConn struct {
	net.Conn

	all *countingListener
}

// Read is [net.Conn].
func (c countingConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.all.in.Add(int64(n))
	return n, err
}

// Write is [net.Conn].
func (c countingConn) Write(b []byte) (int, error) {
	c.all.out.Add(int64(len(b))) // Before a waiting test can look.
	return c.Conn.Write(b)
}
