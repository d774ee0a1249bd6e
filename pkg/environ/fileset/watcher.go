package fileset

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
)

// Moment is when a change of a file's bytes is reported.
type Moment uint32

// The moments.
const (
	// EachWrite reports each write.
	EachWrite Moment = unix.IN_MODIFY | unix.IN_CLOSE_WRITE
	// WhenClosed reports writes when the writer closes the file: what is read before is half of something.
	WhenClosed Moment = unix.IN_CLOSE_WRITE
)

// interesting are the events of a change besides: of names, and of who may read.
const interesting = unix.IN_ATTRIB | unix.IN_CREATE | unix.IN_DELETE |
	unix.IN_MOVED_FROM | unix.IN_MOVED_TO | unix.IN_DELETE_SELF | unix.IN_MOVE_SELF

// Watcher tells of changes at the paths of sets.
type Watcher struct {
	// queue is read, and fd is its descriptor: to ask the file for it would have reads hold up the close.
	queue *os.File
	fd    int
	// mask are the events that matter.
	mask uint32
	// raw has an element when something may have changed since the last one was taken.
	raw chan struct{}

	mu sync.Mutex
	// names are those that matter, by the watch of the directory that they are in; nil are all. mu guards them.
	names map[int]map[string]bool
}

// NewWatcher returns a watcher of nothing. The caller must call [Watcher.Run], which ends it.
func NewWatcher(moment Moment) (*Watcher, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	switch {
	case errors.Is(err, unix.EMFILE):
		return nil, errors.New("watch files: too many processes of this user watch files: raise the sysctl fs.inotify.max_user_instances")
	case err != nil:
		return nil, fmt.Errorf("watch files: %w", err)
	}
	return &Watcher{
		queue: os.NewFile(uintptr(fd), "inotify"),
		fd:    fd,
		mask:  uint32(moment) | interesting,
		raw:   make(chan struct{}, 1),
		names: map[int]map[string]bool{},
	}, nil
}

// Changes has an element when something may have changed.
func (w *Watcher) Changes() <-chan struct{} { return w.raw }

// Watch watches what a set was read from, beside what is watched already. What has changed since it was read counts as a
// change that comes now, and so does what may have: of two changes at one moment, which the file system stamps alike, it is not
// known which was read.
func (w *Watcher) Watch(set Set) error {
	for _, path := range set.paths() {
		if err := w.watchPath(path); err != nil {
			return fmt.Errorf("watch %s: %w", path, err)
		}
	}
	if !set.IsCurrent() || set.isYoung() {
		w.tell()
	}
	return nil
}

// watchPath watches what is at a path, for a file may be written to by whoever has another name for it, and its name in
// each directory on the way, as far as the file system goes that it is on: what lies above a mount does not change it.
func (w *Watcher) watchPath(path string) error {
	if err := w.add(path, ""); err != nil {
		return err
	}
	for path != "/" {
		dir := filepath.Dir(path)
		if err := w.add(dir, filepath.Base(path)); err != nil {
			return err
		}
		if here, above := look(dir), look(filepath.Dir(dir)); here != (state{}) && here.dev != above.dev {
			return nil
		}
		path = dir
	}
	return nil
}

// add watches a path for changes of a name in it, or, without one, for all. What cannot be watched because it is not there,
// or because this user may not read it, is left out: the directory above shows when that ends.
func (w *Watcher) add(path, name string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	watch, err := unix.InotifyAddWatch(w.fd, path, w.mask)
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.EACCES):
		return nil
	case errors.Is(err, unix.ENOSPC):
		return errors.New("this user watches too many files: raise the sysctl fs.inotify.max_user_watches")
	case err != nil:
		return err
	}
	names, known := w.names[watch]
	switch {
	case name == "":
		w.names[watch] = nil
	case !known:
		w.names[watch] = map[string]bool{name: true}
	case names != nil:
		names[name] = true
	}
	return nil
}

// tell says that something may have changed.
func (w *Watcher) tell() {
	select {
	case w.raw <- struct{}{}:
	default: // It was said, and nobody has heard it yet.
	}
}

// Run tells of changes until the context ends.
func (w *Watcher) Run(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { _ = w.queue.Close() })
	defer stop()
	buffer := make([]byte, 64<<10)
	for {
		n, err := w.queue.Read(buffer)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return fmt.Errorf("read of changes of files: %w", err)
		}
		if w.matters(buffer[:n]) {
			w.tell()
		}
	}
}

// matters tells whether one of the events is of something that is watched for. An event is the number of the watch, a mask,
// a number that we do not need, the length of the name, and the name with NUL bytes behind it.
func (w *Watcher) matters(events []byte) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	matter := false
	for len(events) >= unix.SizeofInotifyEvent {
		watch := int(int32(binary.NativeEndian.Uint32(events))) //nolint:gosec // The kernel's number is signed.
		mask, length := binary.NativeEndian.Uint32(events[4:]), int(binary.NativeEndian.Uint32(events[12:]))
		name := bytes.TrimRight(events[unix.SizeofInotifyEvent:unix.SizeofInotifyEvent+length], "\x00")
		events = events[unix.SizeofInotifyEvent+length:]
		matter = w.isAwaited(watch, mask, string(name)) || matter
		if mask&unix.IN_IGNORED != 0 {
			delete(w.names, watch)
		}
	}
	return matter
}

// isAwaited tells whether an event is of something that is watched for. That of a whole queue that ran over is.
func (w *Watcher) isAwaited(watch int, mask uint32, name string) bool {
	names, known := w.names[watch]
	switch {
	case mask&unix.IN_Q_OVERFLOW != 0:
		return true
	case !known:
		return false
	}
	return names == nil || name == "" || names[name]
}
