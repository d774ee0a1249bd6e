package atomicdir_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/liveconfig-csi/liveconfig/pkg/expect"
	"github.com/liveconfig-csi/liveconfig/pkg/files/atomicdir"
)

// watch reports what inotify reports to an application that watches the volume's root.
type watch struct{ fd int }

func newWatch(t *testing.T, dir string) watch {
	t.Helper()
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	expect.NoError(t, err)
	t.Cleanup(func() { unix.Close(fd) })
	if _, err := unix.InotifyAddWatch(fd, dir, unix.IN_ALL_EVENTS&^(unix.IN_ACCESS|unix.IN_OPEN|unix.IN_CLOSE_NOWRITE)); err != nil {
		t.Fatal(err)
	}
	return watch{fd}
}

// events returns how often each kind of event has come for each name since the last call.
func (w watch) events(t *testing.T) map[string]int {
	t.Helper()
	count := map[string]int{}
	buf := make([]byte, 1<<16)
	for {
		n, err := unix.Read(w.fd, buf)
		if errors.Is(err, unix.EAGAIN) {
			return count
		}
		expect.NoError(t, err)
		for rest := buf[:n]; len(rest) > 0; {
			mask, length := binary.NativeEndian.Uint32(rest[4:]), binary.NativeEndian.Uint32(rest[12:])
			name := string(bytes.TrimRight(rest[unix.SizeofInotifyEvent:unix.SizeofInotifyEvent+length], "\x00"))
			if mask&unix.IN_MOVED_TO != 0 {
				count["moved to "+name]++
			}
			count["all"]++
			rest = rest[unix.SizeofInotifyEvent+length:]
		}
	}
}

// TestWatchers counts what applications wait for: ..data moved once per change, and nothing at all without one. These
// are rules 30 and 35 (trap 10). This is fault 10.
func TestWatchers(t *testing.T) {
	t.Parallel()
	dir, root := newVolume(t)
	w := newWatch(t, dir)
	const swap = "moved to ..data"
	steps := []struct {
		files files
		swaps int
	}{
		{files{"a": "1", "b": "1"}, 1},
		{files{"a": "1", "b": "1"}, 0},
		{files{"a": "2", "b": "1"}, 1},
		{files{"a": "2", "c": "1"}, 1},
		{files{"a": "2", "c": "1"}, 0},
		{nil, 1},
		{nil, 0},
		{files{"a/b": "2"}, 1},
	}
	for i, step := range steps {
		changed := mustWrite(t, atomicdir.Atomic{}, root, step.files.tree(t))
		got := w.events(t)
		if got[swap] != step.swaps {
			t.Errorf("step %d: ..data moved %d times, want %d", i, got[swap], step.swaps)
		}
		if changed != (step.swaps > 0) {
			t.Errorf("step %d: changed = %t, want %t", i, changed, step.swaps > 0)
		}
		if !changed && got["all"] > 0 {
			t.Errorf("step %d: events without a change: %v", i, got)
		}
	}
}
