package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"
)

// limits bounds what connections can take: their time, their size, their number.
type limits struct {
	timeout     time.Duration // For a request, and between two.
	headerBytes int
	// mostConnections are of all clients together, and mostOfOne of each.
	mostConnections, mostOfOne int
}

// defaultLimits suits an endpoint that the whole cluster can reach.
func defaultLimits() limits {
	return limits{timeout: 10 * time.Second, headerBytes: 8 << 10, mostConnections: 100, mostOfOne: 25}
}

// ListenHTTP listens on a TCP address, for [ServeHTTP]. From then on a client waits for an answer
// instead of being refused.
func ListenHTTP(ctx context.Context, address string) (net.Listener, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen on %s for HTTP: %w", address, err)
	}
	return l, nil
}

// ServeHTTP serves the handler on the listener, which it takes over, until ctx ends.
func ServeHTTP(ctx context.Context, l net.Listener, handler http.Handler) error {
	return serveHTTP(ctx, l, handler, defaultLimits())
}

// serveHTTP takes the listener over.
func serveHTTP(ctx context.Context, l net.Listener, handler http.Handler, m limits) error {
	s := &http.Server{
		Handler: handler, ReadHeaderTimeout: m.timeout, ReadTimeout: m.timeout, IdleTimeout: m.timeout,
		WriteTimeout: 3 * m.timeout, MaxHeaderBytes: m.headerBytes,
		ConnState: newConnLimiter(m.mostConnections, m.mostOfOne).note,
	}
	failed := make(chan error, 1)
	go func() { failed <- s.Serve(l) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serve HTTP on %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	if err := s.Close(); err != nil {
		return fmt.Errorf("stop HTTP on %s: %w", l.Addr(), err)
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

// Local serves clients on loopback, which for a pod are its containers and kubectl port-forward,
// and refuses others. It protects pages that show names: the endpoint does not authenticate clients
// of the pod network, and a user that may port-forward to it has been.
func Local(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		client, err := netip.ParseAddrPort(r.RemoteAddr)
		if err != nil || !client.Addr().Unmap().IsLoopback() || !isLocalName(r.Host) || isForwarded(r) {
			http.Error(w, "this is served through kubectl port-forward only", http.StatusForbidden)
			return
		}
		handler.ServeHTTP(w, r)
	})
}

// isLocalName reports whether a request was sent to the host's own name: a web page can have a
// browser send it to another one that leads here.
func isLocalName(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = strings.Trim(hostport, "[]")
	}
	address, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && address.IsLoopback()
}

// isForwarded reports whether a proxy beside the driver has sent the request on for somebody else.
func isForwarded(r *http.Request) bool {
	return len(r.Header["Forwarded"])+len(r.Header["X-Forwarded-For"]) > 0 // Empty ones as well, before others perhaps.
}
