package server_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/liveconfig-csi/liveconfig/pkg/daemon/server"
	"github.com/liveconfig-csi/liveconfig/pkg/expect"
)

// probe calls Probe and returns where its error will be.
func probe(ctx context.Context, conn grpc.ClientConnInterface) <-chan error {
	called := make(chan error, 1)
	go func() {
		_, err := csi.NewIdentityClient(conn).Probe(ctx, &csi.ProbeRequest{})
		called <- err
	}()
	return called
}

// serve serves until stop is called.
func serve(t *testing.T, l net.Listener, s *grpc.Server) (stop func(), served <-chan error) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	result := make(chan error, 1)
	go func() { result <- server.Serve(ctx, l, s) }()
	return stop, result
}

// TestServeLetsCallsFinish, and refuses new ones while it stops.
func TestServeLetsCallsFinish(t *testing.T) {
	t.Parallel()
	l, path := listen(t)
	entered, finish := make(chan struct{}), make(chan struct{})
	stop, served := serve(t, l, newServer(func(context.Context) error {
		close(entered)
		<-finish
		return nil
	}))
	called := probe(t.Context(), dial(t, path))
	<-entered

	stop()
	for exists(t, path) { // The socket goes first.
		if t.Context().Err() != nil {
			t.Fatal("the socket stayed")
		}
	}
	if err := <-probe(t.Context(), dial(t, path)); status.Code(err) != codes.Unavailable {
		t.Errorf("a call that comes late = %v, want %s", err, codes.Unavailable)
	}
	select {
	case err := <-served:
		t.Fatalf("Serve returned %v while a call was under way", err)
	case err := <-called:
		t.Fatalf("the call ended with %v while it was under way", err)
	default:
	}
	close(finish)
	if err := errors.Join(<-called, <-served); err != nil {
		t.Errorf("the call under way, or Serve = %v, want nil", err)
	}
	if exists(t, path) {
		t.Errorf("%s is there after Serve has returned", path)
	}
}

func TestServeEndsCallsThatOutlastTheGracePeriod(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := bufconn.Listen(1 << 16)
		entered := make(chan struct{})
		s := newServer(func(ctx context.Context) error {
			close(entered)
			<-ctx.Done()
			return ctx.Err()
		})
		stop, served := serve(t, l, s)
		conn, err := grpc.NewClient("passthrough:///driver", grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }))
		expect.NoError(t, err)
		defer conn.Close()
		called := probe(t.Context(), conn)
		<-entered

		start := time.Now()
		stop()
		if err := <-called; status.Code(err) != codes.Unavailable {
			t.Errorf("the call = %v, want %s", err, codes.Unavailable)
		}
		if err := <-served; err != nil {
			t.Errorf("Serve = %v, want nil", err)
		}
		if got, want := time.Since(start), 10*time.Second; got != want {
			t.Errorf("calls had %s to finish, want %s", got, want)
		}
	})
}

func TestServeThatIsStoppedBeforeItBegins(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	stop()
	for range 100 { // The scheduler decides which comes first, the stop or the server.
		l, path := listen(t)
		if err := server.Serve(ctx, l, newServer(answer)); err != nil {
			t.Fatalf("Serve = %v, want nil", err)
		}
		if exists(t, path) {
			t.Fatalf("%s is there after Serve has returned", path)
		}
	}
}

func TestServeReportsAListenerThatBreaks(t *testing.T) {
	t.Parallel()
	l, path := listen(t)
	expect.NoError(t, l.Close())
	err := server.Serve(t.Context(), l, newServer(answer))
	if !errors.Is(err, net.ErrClosed) || !strings.HasPrefix(err.Error(), "serve on "+path+": ") {
		t.Errorf("Serve = %v, want it to say where, and %v", err, net.ErrClosed)
	}
}
