package server_test

import (
	"context"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/liveconfig-csi/liveconfig/pkg/daemon/server"
	"github.com/liveconfig-csi/liveconfig/pkg/expect"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// identity answers Probe, and no other call, with what the function returns.
type identity struct {
	csi.UnimplementedIdentityServer

	probe func(context.Context) error
}

func (i identity) Probe(ctx context.Context, _ *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	if err := i.probe(ctx); err != nil {
		return nil, err
	}
	return &csi.ProbeResponse{}, nil
}

func answer(context.Context) error { return nil }

// newServer returns a server whose Probe calls the function.
func newServer(probe func(context.Context) error, options ...grpc.ServerOption) *grpc.Server {
	s := server.NewGRPC(options...)
	csi.RegisterIdentityServer(s, identity{probe: probe})
	return s
}

// dial returns a connection to the socket at path that is closed with the test.
func dial(t *testing.T, path string) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient("unix://"+path, grpc.WithTransportCredentials(insecure.NewCredentials()))
	expect.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// listen returns a listener on a socket named csi.sock in a directory of the test, and the socket's path.
func listen(t *testing.T) (net.Listener, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "csi.sock")
	l, err := server.Listen(t.Context(), path)
	expect.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l, path
}

func exists(t *testing.T, path string) bool {
	t.Helper()
	_, err := os.Lstat(path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return err == nil
}

func modeOf(t *testing.T, path string) fs.FileMode {
	t.Helper()
	info, err := os.Lstat(path)
	expect.NoError(t, err)
	return info.Mode()
}
