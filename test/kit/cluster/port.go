package cluster

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// port is a loopback TCP port that stays ours, whether or not the API server is running.
//
// It is held by a socket that is bound but never listens. The API server binds the same port beside it (both set
// SO_REUSEPORT), so no stranger can take the port between our choosing it and the server's start, nor during a restart.
type port struct {
	fd     int
	number int
}

// reservePort lets the kernel choose a free port.
func reservePort() (*port, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("make a socket: %w", err)
	}
	number, err := bindLoopback(fd)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("reserve a loopback port: %w", err), unix.Close(fd))
	}
	return &port{fd: fd, number: number}, nil
}

func bindLoopback(fd int) (int, error) {
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1); err != nil {
		return 0, fmt.Errorf("set SO_REUSEPORT: %w", err)
	}
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return 0, fmt.Errorf("bind 127.0.0.1: %w", err)
	}
	name, err := unix.Getsockname(fd)
	if err != nil {
		return 0, fmt.Errorf("read the bound address: %w", err)
	}
	address, ok := name.(*unix.SockaddrInet4)
	if !ok {
		return 0, fmt.Errorf("bound to %T instead of an IPv4 address", name)
	}
	return address.Port, nil
}

// release gives the port back to the kernel.
func (p *port) release() error {
	if err := unix.Close(p.fd); err != nil {
		return fmt.Errorf("release port %d: %w", p.number, err)
	}
	return nil
}
