// Package killpoint kills a program between any two changes that it makes to file systems: not near one, but exactly
// before the n-th. The program needs no change for it. It runs under a seccomp filter that asks this package before
// each system call that changes a file, a directory or a mount.
//
// It does not know what the program does, nor what should be left of it.
package killpoint

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

// Killer counts the changes of the programs that are launched on its socket, one after the other.
type Killer struct {
	listener *net.UnixListener

	mu      sync.Mutex // Guards the fields below.
	left    int        // How many more changes may be made; the next one after them kills. Negative: any number.
	seen    int        // Changes since the killer was last armed or disarmed.
	tripped string     // What the program was killed before, if it was.
	dead    chan struct{}
}

// Listen returns a disarmed wire with a socket at path. Run it, and give the path to the launcher.
func Listen(path string) (*Killer, error) {
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("make the kill point's socket: %w", err)
	}
	return &Killer{listener: l, left: -1, dead: make(chan struct{})}, nil
}

// Run serves until ctx ends and every program has ended. While it does not run, no program gets past its first change.
func (w *Killer) Run(ctx context.Context) error {
	var g errgroup.Group
	stop := context.AfterFunc(ctx, func() { _ = w.listener.Close() })
	defer stop()
	for {
		conn, err := w.listener.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			return g.Wait()
		}
		if err != nil {
			return errors.Join(fmt.Errorf("wait for a program: %w", err), g.Wait())
		}
		p, err := meet(conn)
		if err != nil {
			return errors.Join(err, g.Wait())
		}
		g.Go(func() error { return w.watch(p) })
	}
}

// Arm makes the killer kill the program before change number n, counted from now, from one. The channel is closed when it
// did.
func (w *Killer) Arm(n int) (tripped <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.left, w.seen, w.tripped, w.dead = n-1, 0, "", make(chan struct{})
	return w.dead
}

// Disarm lets all further changes pass. It returns how many were made since the killer was armed, and before which the
// program was killed, which is empty if it was not.
func (w *Killer) Disarm() (seen int, tripped string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	seen, tripped = w.seen, w.tripped
	w.left, w.seen, w.tripped = -1, 0, ""
	return seen, tripped
}

// program is one that was launched under the killer.
type program struct {
	pid      int
	listener int // The descriptor that the kernel asks through.
}

// meet takes what the launcher sends: the descriptor that the kernel asks through.
func meet(conn *net.UnixConn) (program, error) {
	defer conn.Close()
	control := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := conn.ReadMsgUnix(make([]byte, 1), control)
	if err != nil {
		return program{}, fmt.Errorf("meet the launcher: %w", err)
	}
	var fds []int
	messages, err := unix.ParseSocketControlMessage(control[:n])
	if err == nil && len(messages) == 1 {
		fds, err = unix.ParseUnixRights(&messages[0])
	}
	if err != nil || len(fds) != 1 {
		return program{}, errors.Join(errors.New("the launcher has sent no descriptor"), err)
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return program{}, err
	}
	var peer *unix.Ucred
	var failed error
	err = raw.Control(func(fd uintptr) { peer, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if err := errors.Join(err, failed); err != nil {
		return program{}, err
	}
	return program{pid: int(peer.Pid), listener: fds[0]}, nil
}

// watch answers the kernel's questions about one program until it has ended.
func (w *Killer) watch(p program) error {
	defer unix.Close(p.listener)
	for {
		q, err := next(p.listener)
		switch {
		case errors.Is(err, errEnded):
			return nil
		case err != nil:
			return err
		}
		if isChange(p, q) && w.trip(q) {
			if err := unix.Kill(p.pid, unix.SIGKILL); err != nil {
				return fmt.Errorf("kill the program: %w", err)
			}
			continue // The call is never made: what waits for our answer is dead.
		}
		if err := allow(p.listener, q); err != nil {
			return err
		}
	}
}

// isChange leaves out what is written to anything but files on disk: sockets, pipes and the log.
func isChange(p program, q question) bool {
	if !slices.Contains(writes, q.call) {
		return true
	}
	file, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", p.pid, q.args[0]))
	return err == nil && q.args[0] > 2 && strings.HasPrefix(file, "/") && !strings.HasPrefix(file, "/dev/")
}

// trip counts a change and reports whether it is the one.
func (w *Killer) trip(q question) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.left != 0 {
		w.left--
		w.seen++
		return false
	}
	w.left, w.tripped = -1, nameOf(q.call)
	close(w.dead)
	return true
}
