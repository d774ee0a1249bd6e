package narrator

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// swap is when a volume changed.
type swap struct {
	at  time.Time
	err error
}

// updateTimeout is how long a demo waits for a change before it calls the driver broken.
const updateTimeout = 30 * time.Second

// Change makes a change, waits until the volume shows it, and prints what changed and how fast, which it returns. Time counts from before
// the change: the files may change before the call that makes the change returns.
func (n Narrator) Change(ctx context.Context, volume string, change func() error, name string) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, updateTimeout)
	defer cancel()
	before, err := ReadTree(volume)
	if err != nil {
		return 0, err
	}
	swapped, err := watchSwap(ctx, volume)
	if err != nil {
		return 0, err
	}
	began := time.Now()
	if err := change(); err != nil {
		return 0, err
	}
	swap := <-swapped
	if swap.err != nil {
		return 0, fmt.Errorf("wait for the change in %s: %w", volume, swap.err)
	}
	took := swap.at.Sub(began)
	n.Print("the files changed %s after %s", Milliseconds(took), name)
	after, err := ReadTree(volume)
	if err != nil {
		return 0, err
	}
	return took, n.PrintChanges(before, after)
}

// watchSwap reports the next time that ..data in the volume is replaced, or that ctx ended first. It watches as a
// program in the pod would: with inotify.
func watchSwap(ctx context.Context, volume string) (<-chan swap, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("start inotify: %w", err)
	}
	events := os.NewFile(uintptr(fd), "inotify")
	if _, err := unix.InotifyAddWatch(fd, volume, unix.IN_MOVED_TO); err != nil {
		return nil, errors.Join(fmt.Errorf("watch %s: %w", volume, err), events.Close())
	}
	stop := context.AfterFunc(ctx, func() { _ = events.SetReadDeadline(time.Now()) }) // Ends the read below.
	swapped := make(chan swap, 1)
	go func() {
		defer func() { _ = events.Close() }()
		defer stop()
		at, err := awaitData(events)
		swapped <- swap{at: at, err: err}
	}()
	return swapped, nil
}

// awaitData reads events until one is about ..data.
func awaitData(events *os.File) (time.Time, error) {
	buf := make([]byte, 4096)
	for {
		n, err := events.Read(buf)
		if err != nil {
			return time.Time{}, err
		}
		at := time.Now()
		for rest := buf[:n]; len(rest) >= unix.SizeofInotifyEvent; {
			event := (*unix.InotifyEvent)(unsafe.Pointer(&rest[0])) //nolint:gosec // This is how the kernel lays events out.
			end := unix.SizeofInotifyEvent + int(event.Len)
			name := bytes.TrimRight(rest[unix.SizeofInotifyEvent:end], "\x00")
			if string(name) == "..data" {
				return at, nil
			}
			rest = rest[end:]
		}
	}
}
