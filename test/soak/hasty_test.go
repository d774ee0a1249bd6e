package soak

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// How long a hasty reader waits for changes of a volume before it goes to the next.
const (
	hastyTurns = 40
	hastyWait  = 20 * time.Millisecond
)

// beHasty waits for changes of a volume, as programs do, and opens every name in it at the very moment of one: when a
// driver is most likely to be in the middle of it.
func (r *run) beHasty(ctx context.Context, random *rand.Rand) {
	v := r.anyLive(random)
	if v == nil {
		pause(ctx, hastyWait)
		return
	}
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		r.failf("watch a volume: %v", err)
		return
	}
	defer unix.Close(fd)
	for turn := range hastyTurns {
		isLive, err := r.lookHastily(v, fd, turn == 0)
		if err != nil {
			r.failf("a hasty reader of volume %s (%s): %v", v, v.describe(), err)
		}
		if !isLive || err != nil || ctx.Err() != nil {
			return
		}
	}
}

// lookHastily waits for one change, for a moment.
func (r *run) lookHastily(v *vol, fd int, isFirst bool) (isLive bool, err error) { //nolint:revive // Only then is the volume watched.
	r.resting.RLock()
	defer r.resting.RUnlock()
	v.gate.RLock()
	defer v.gate.RUnlock()
	r.mu.Lock()
	isLive = v.state == live
	r.mu.Unlock()
	if !isLive {
		return false, nil
	}
	if isFirst {
		const changes = unix.IN_MOVED_TO | unix.IN_MOVED_FROM | unix.IN_CREATE | unix.IN_DELETE
		if _, err := unix.InotifyAddWatch(fd, v.target, changes); err != nil {
			return true, err
		}
	}
	ready, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(hastyWait.Milliseconds()))
	if ready == 0 || errors.Is(err, unix.EINTR) {
		return true, nil
	}
	names, err := os.ReadDir(v.target)
	if err != nil {
		return true, err
	}
	for _, name := range names {
		if strings.HasPrefix(name.Name(), "..") {
			continue
		}
		if err := opens(filepath.Join(v.target, name.Name())); err != nil {
			return true, err
		}
	}
	r.hasty.Add(1)
	buf := make([]byte, 1<<14)
	if _, err := unix.Read(fd, buf); err != nil && !errors.Is(err, unix.EAGAIN) {
		return true, err
	}
	return true, nil
}
