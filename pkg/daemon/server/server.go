// Package server owns the driver's sockets: the CSI socket, the kubelet's plugin registration, and
// HTTP for metrics and health. It starts, logs calls, and stops gracefully.
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
	"sync"
	"time"

	"google.golang.org/grpc"
)

// gracePeriod is how long calls under way may take to finish when the server stops.
const gracePeriod = 10 * time.Second

// socketMode lets nobody but root connect.
const socketMode = 0o600

// maxSocketPath is the longest path, in bytes, that the kernel binds a unix socket to: its field is
// one byte longer.
const maxSocketPath = 107

// ParseEndpoint returns the socket path of a unix URL: unix:///run/csi.sock, unix:/run/csi.sock, or
// a plain absolute path.
func ParseEndpoint(endpoint string) (string, error) {
	path := strings.TrimPrefix(strings.TrimPrefix(endpoint, "unix:"), "//")
	if !filepath.IsAbs(path) || filepath.Clean(path) == "/" {
		return "", fmt.Errorf("endpoint %q is not a unix socket URL; write it as unix:///run/example/csi.sock", endpoint)
	}
	path = filepath.Clean(path)
	return path, checkSocketPath(path)
}

func checkSocketPath(path string) error {
	if len(path) > maxSocketPath {
		return fmt.Errorf("the path of a unix socket has at most %d bytes, %s has %d", maxSocketPath, path, len(path))
	}
	return nil
}

// Listen makes a unix socket that only root can connect to. A socket that a killed process left
// there, or that an older driver still holds, is replaced; any other file is not. Closing the
// listener removes the socket.
func Listen(ctx context.Context, path string) (net.Listener, error) {
	if err := errors.Join(checkSocketPath(path), removeStaleSocket(path)); err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	l, err := new(net.ListenConfig).Listen(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	s, err := newSocket(l, path)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("listen on %s: %w", path, err), l.Close())
	}
	return s, nil
}

// socket is a listener that removes its own file when it closes and no other: a newer driver may
// have taken over the path while this one lets its last calls finish.
type socket struct {
	net.Listener

	path   string
	file   fs.FileInfo
	remove sync.Once
}

func newSocket(l net.Listener, path string) (*socket, error) {
	if err := os.Chmod(path, socketMode); err != nil {
		return nil, err
	}
	file, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if u, ok := l.(*net.UnixListener); ok {
		u.SetUnlinkOnClose(false)
	}
	return &socket{Listener: l, path: path, file: file}, nil
}

// Close removes the file first: as long as the socket is open, no other file can have its inode
// number.
func (s *socket) Close() error {
	var err error
	s.remove.Do(func() {
		if info, statErr := os.Lstat(s.path); statErr == nil && os.SameFile(info, s.file) {
			err = os.Remove(s.path)
		}
	})
	return errors.Join(err, s.Listener.Close())
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

// Serve serves on l until ctx ends or serving fails. Calls under way get a grace period to finish.
// The socket is gone when Serve returns.
func Serve(ctx context.Context, l net.Listener, s *grpc.Server) error {
	failed := make(chan error, 1)
	go func() { failed <- s.Serve(l) }()
	select {
	case err := <-failed:
		stop(s) // Connections from before live on otherwise.
		return fmt.Errorf("serve on %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	stop(s)
	if err := <-failed; err != nil && !errors.Is(err, grpc.ErrServerStopped) { // That: stopped before it began.
		return fmt.Errorf("serve on %s: %w", l.Addr(), err)
	}
	return nil
}

// stop waits for calls under way, and ends those that outlast the grace period.
func stop(s *grpc.Server) {
	limit := time.AfterFunc(gracePeriod, s.Stop)
	defer limit.Stop()
	s.GracefulStop()
}
