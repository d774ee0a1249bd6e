// Package server owns the driver's sockets: the CSI socket, the kubelet's plugin registration, and HTTP for metrics and
// health. It starts, logs calls, and stops gracefully.
//
// It does not know volumes.
package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"google.golang.org/grpc"
)

// gracePeriod is how long calls under way may take to finish when the server stops.
const gracePeriod = 10 * time.Second

// socketMode lets nobody but root connect.
const socketMode = 0o600

// ParseEndpoint returns the socket path of a unix URL: unix:///run/csi.sock, unix:/run/csi.sock, or a plain absolute path.
func ParseEndpoint(endpoint string) (string, error) {
	path := strings.TrimPrefix(strings.TrimPrefix(endpoint, "unix:"), "//")
	if !filepath.IsAbs(path) {
		return "", fmt.Errorf("endpoint %q is not a unix socket URL; write it as unix:///run/example/csi.sock", endpoint)
	}
	return filepath.Clean(path), nil
}

// Listen makes a unix socket that only root can connect to. A socket that a killed process left there is replaced; any
// other file is not.
func Listen(ctx context.Context, path string) (net.Listener, error) {
	if err := removeStaleSocket(path); err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	l, err := new(net.ListenConfig).Listen(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	if err := os.Chmod(path, socketMode); err != nil {
		return nil, errors.Join(fmt.Errorf("listen on %s: %w", path, err), l.Close())
	}
	return l, nil
}

func removeStaleSocket(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("there is a file that is not a socket (%s); remove it or choose another endpoint", info.Mode())
	}
	return os.Remove(path)
}

// Serve serves on l until ctx ends or serving fails. Calls under way get a grace period to finish. The socket is gone
// when Serve returns.
func Serve(ctx context.Context, l net.Listener, s *grpc.Server) error {
	failed := make(chan error, 1)
	go func() { failed <- s.Serve(l) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serve on %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	stop(s)
	return <-failed
}

// stop waits for calls under way, and ends those that outlast the grace period.
func stop(s *grpc.Server) {
	limit := time.AfterFunc(gracePeriod, s.Stop)
	defer limit.Stop()
	s.GracefulStop()
}
