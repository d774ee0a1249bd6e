// Package network puts a link that can fail between a client and a real API server, both on loopback. A [Link] fails as
// networks do: it refuses, resets, swallows or delays what is sent. A [Front] fails as API servers and the proxies before
// them do: it answers requests itself, or late.
//
// It does not know the client.
package network

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/liveconfig-csi/liveconfig/test/kit/port"
)

// mode is what a link does with what is sent over it.
type mode int

const (
	passing mode = iota
	cut
	frozen
)

// Link passes TCP connections on to a target, until it is asked to do worse. All methods may be called at any time, by many
// goroutines.
type Link struct {
	target string
	port   *port.Port

	ctx  context.Context // Ends with the link.
	stop context.CancelFunc
	wg   sync.WaitGroup // Counts all goroutines.

	mu       sync.Mutex // Guards the fields below.
	mode     mode
	latency  time.Duration
	changed  chan struct{} // Closed, and made again, when the mode changes.
	listener net.Listener  // Nil while the link is cut.
	conns    map[*conn]struct{}
	accepted int
}

// New returns a link to the target, a host and port or a URL with them, that is closed when the test ends.
func New(t testing.TB, target string) *Link {
	t.Helper()
	p, err := port.OfLoopback()
	if err != nil {
		t.Fatal(err)
	}
	l, err := newLink(context.WithoutCancel(t.Context()), p, target)
	if err != nil {
		t.Fatal(err)
	}
	closeAtEnd(t, "link", l)
	return l
}

// closeAtEnd closes something when the test ends.
func closeAtEnd(t testing.TB, what string, c io.Closer) {
	t.Helper()
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("close the %s: %v", what, err)
		}
	})
}

func newLink(ctx context.Context, p *port.Port, target string) (*Link, error) {
	_, address, isURL := strings.Cut(target, "://")
	if !isURL {
		address = target
	}
	ctx, stop := context.WithCancel(ctx)
	l := &Link{
		target: address, port: p, ctx: ctx, stop: stop,
		changed: make(chan struct{}), conns: map[*conn]struct{}{},
	}
	if err := l.Heal(); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// ListenAt is [New] without a test, at an IPv4 address of this machine and a port. The caller closes the link.
func ListenAt(ctx context.Context, address, target string) (*Link, error) {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return nil, fmt.Errorf("parse the address of a link: %w", err)
	}
	p, err := port.Reserve(at)
	if err != nil {
		return nil, err
	}
	return newLink(ctx, p, target)
}

// Address is where the link listens, a host and a port. It stays the same while the link lives.
func (l *Link) Address() string { return l.port.Address() }

// URL is where clients of an API server behind the link find it.
func (l *Link) URL() string { return "https://" + l.Address() }

// Kubeconfig writes a kubeconfig that is the same as another one, but leads over the link.
func (l *Link) Kubeconfig(from, to string) error { return redirect(from, to, l.URL()) }

// Cut resets every connection and refuses new ones.
func (l *Link) Cut() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.setLocked(cut)
	for c := range l.conns {
		c.reset()
	}
	if l.listener == nil {
		return nil
	}
	err := l.listener.Close()
	l.listener = nil
	return err
}

// Freeze makes a black hole of the link: connections stay open and new ones are accepted, but nothing that is sent
// arrives, and nobody is notified.
func (l *Link) Freeze() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.setLocked(frozen)
}

// Lose makes a black hole of the connections that are open, for ever: nothing that is sent over them arrives, and neither end
// is notified. New ones pass, as when a router has forgotten its connections.
func (l *Link) Lose() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.conns {
		c.isLost = true
	}
}

// Slow delays whatever is sent, in either direction, from now on. [Link.Heal] ends it.
func (l *Link) Slow(latency time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.latency = latency
}

// Heal makes the link pass everything at once. What was held back while it was frozen arrives.
func (l *Link) Heal() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.ctx.Err(); err != nil {
		return fmt.Errorf("heal a link that is closed: %w", err)
	}
	l.latency = 0
	if l.listener == nil {
		listener, err := l.port.Listen(l.ctx)
		if err != nil {
			return fmt.Errorf("listen on %s: %w", l.Address(), err)
		}
		l.listener = listener
		l.wg.Go(func() { l.accept(listener) })
	}
	l.setLocked(passing)
	return nil
}

// Accepted returns how many connections were made over the link.
func (l *Link) Accepted() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.accepted
}

// Open returns how many connections are open.
func (l *Link) Open() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.conns)
}

// Close cuts the link for ever and returns when nothing of it is left. A second Close does nothing.
func (l *Link) Close() error {
	l.stop()
	err := l.Cut()
	l.wg.Wait()
	return errors.Join(err, l.port.Release())
}

func (l *Link) setLocked(m mode) {
	l.mode = m
	close(l.changed)
	l.changed = make(chan struct{})
}

func (l *Link) state() (mode, time.Duration, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mode, l.latency, l.changed
}

// redirect writes a kubeconfig that is the same as another one, but names another server.
func redirect(from, to, server string) error {
	config, err := clientcmd.LoadFromFile(from)
	if err != nil {
		return fmt.Errorf("read the kubeconfig to redirect: %w", err)
	}
	for _, cluster := range config.Clusters {
		cluster.Server = server
	}
	if err := clientcmd.WriteToFile(*config, to); err != nil { // With mode 0600.
		return fmt.Errorf("write the redirected kubeconfig: %w", err)
	}
	return nil
}
