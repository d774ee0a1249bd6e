package fakekubelet_test

import (
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/liveconfig-csi/liveconfig/test/kit/fakekubelet"
)

// TestASlowServerIsReached: the server answers a connection later than the kubelet would dial again.
func TestASlowServerIsReached(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "csi.sock")
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	csi.RegisterIdentityServer(server, csi.UnimplementedIdentityServer{})
	go func() { _ = server.Serve(slowListener{l}) }()
	t.Cleanup(server.Stop)
	k, err := fakekubelet.New(t.TempDir(), "driver", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	_, err = k.Identity().Probe(t.Context(), &csi.ProbeRequest{}, grpc.WaitForReady(true))
	if status.Code(err) != codes.Unimplemented {
		t.Errorf("a call got %v, want the server's own answer", err)
	}
}

type slowListener struct{ net.Listener }

func (l slowListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	<-time.After(500 * time.Millisecond)
	return conn, err
}
