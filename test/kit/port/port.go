// Package port keeps TCP ports of this machine for those who listen on them only now and then.
//
// It does not know who listens.
package port

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Port is a port that stays its owner's while nobody listens on it. It is held by a socket that is bound but never listens.
// Whoever listens binds the same port beside it, by SO_REUSEPORT, so that no stranger can take the port between its choice and
// a server's start, nor during a restart.
type Port struct {
	at netip.AddrPort

	mu sync.Mutex
	fd int // Below zero once it is released.
}

// OfLoopback has the kernel choose a free port of loopback.
func OfLoopback() (*Port, error) {
	return Reserve(netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), 0))
}

// Reserve takes a port of an IPv4 address, or a free one if the address has port 0.
func Reserve(at netip.AddrPort) (*Port, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("make a socket: %w", err)
	}
	number, err := bind(fd, at)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("reserve %s: %w", at, err), unix.Close(fd))
	}
	return &Port{at: netip.AddrPortFrom(at.Addr(), number), fd: fd}, nil
}

func bind(fd int, at netip.AddrPort) (number uint16, err error) {
	if err := share(fd); err != nil {
		return 0, err
	}
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: at.Addr().As4(), Port: int(at.Port())}); err != nil {
		return 0, err
	}
	name, err := unix.Getsockname(fd)
	if err != nil {
		return 0, err
	}
	address, ok := name.(*unix.SockaddrInet4)
	if !ok {
		return 0, fmt.Errorf("bound to a %T", name)
	}
	return uint16(address.Port), nil //nolint:gosec // A port has 16 bits.
}

// share lets other sockets of the same user have the same port.
func share(fd int) error { return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1) }

// Number is the port's.
func (p *Port) Number() int { return int(p.at.Port()) }

// Address is a host and the port.
func (p *Port) Address() string { return p.at.String() }

// Listen listens on the port.
func (p *Port) Listen(ctx context.Context) (net.Listener, error) {
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var failed error
		err := c.Control(func(fd uintptr) { failed = share(int(fd)) })
		return errors.Join(err, failed)
	}}
	return config.Listen(ctx, "tcp", p.Address())
}

// Release gives the port back. A second one does nothing.
func (p *Port) Release() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fd < 0 {
		return nil
	}
	fd := p.fd
	p.fd = -1
	return unix.Close(fd)
}
