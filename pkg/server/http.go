package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"time"
)

// headerTimeout bounds how long a client may take to say what it wants.
const headerTimeout = 10 * time.Second

// ServeHTTP serves the handler on a TCP address until ctx ends.
func ServeHTTP(ctx context.Context, address string, handler http.Handler) error {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("listen on %s for HTTP: %w", address, err)
	}
	s := &http.Server{Handler: handler, ReadHeaderTimeout: headerTimeout}
	failed := make(chan error, 1)
	go func() { failed <- s.Serve(l) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serve HTTP on %s: %w", address, err)
	case <-ctx.Done():
	}
	if err := s.Close(); err != nil {
		return fmt.Errorf("stop HTTP on %s: %w", address, err)
	}
	if err := <-failed; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Health answers «ok», or 503 and why not.
func Health(check func() error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if err := check(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		_, _ = io.WriteString(w, "ok\n") // A prober that hangs up is its own business.
	})
}

// Local serves clients of its own host, which for a pod are its containers and kubectl port-forward, and refuses others.
// It is for what has names in it: who may reach a pod by the network is not asked who he is, and who may port-forward to it
// has been.
func Local(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		client, err := netip.ParseAddrPort(r.RemoteAddr)
		if err != nil || !client.Addr().Unmap().IsLoopback() {
			http.Error(w, "this is served through kubectl port-forward only", http.StatusForbidden)
			return
		}
		handler.ServeHTTP(w, r)
	})
}
