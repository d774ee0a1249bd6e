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

// Swap is when a volume changed.
type Swap struct {
	At  time.Time
	Err error
}

// WatchSwap reports the next time that ..data in the volume is replaced, or that ctx ended first. It watches as a
// program in the pod would: with inotify.
func WatchSwap(ctx context.Context, volume string) (<-chan Swap, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("start inotify: %w", err)
	}
	events := os.NewFile(uintptr(fd), "inotify")
	if _, err := unix.InotifyAddWatch(fd, volume, unix.IN_MOVED_TO); err != nil {
		return nil, errors.Join(fmt.Errorf("watch %s: %w", volume, err), events.Close())
	}
	stop := context.AfterFunc(ctx, func() { _ = events.SetReadDeadline(time.Now()) }) // Ends the read below.
	swapped := make(chan Swap, 1)
	go func() {
		defer func() { _ = events.Close() }()
		defer stop()
		at, err := awaitData(events)
		swapped <- Swap{At: at, Err: err}
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
