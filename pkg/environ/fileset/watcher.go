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
	"time"

	"golang.org/x/sys/unix"
)

// Moment is when a change of a file's bytes is reported.
type Moment int

// The moments.
const (
	// EachWrite reports each write.
	EachWrite Moment = iota
	// WhenClosed reports writes when the writer closes the file: what is read before is half of something.
	WhenClosed
)

// interesting are the events of a change: of bytes, of names, and of who may read.
const interesting = unix.IN_MODIFY | unix.IN_CLOSE_WRITE | unix.IN_ATTRIB | unix.IN_CREATE | unix.IN_DELETE |
	unix.IN_MOVED_FROM | unix.IN_MOVED_TO | unix.IN_DELETE_SELF | unix.IN_MOVE_SELF

// Watcher tells of changes at the paths of sets.
type Watcher struct {
	// queue is read, and fd is its descriptor: to ask the file for it would have reads hold up the close.
	queue  *os.File
	fd     int
	moment Moment
	// raw has an element when something may have changed since the last one was taken.
	raw chan struct{}

	mu sync.Mutex // Guards the fields below, and is held while events are read.
	// names are those that matter, by the watch of the directory that they are in; nil are all.
	names map[int]map[string]bool
	// paths are what is watched, by the watch.
	paths map[int]string
	// writing are the files that somebody has begun to write and has not closed, with the last write. Only with [WhenClosed].
	writing map[string]time.Time
	closed  bool
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
		queue:  os.NewFile(uintptr(fd), "inotify"),
		fd:     fd,
		moment: moment,
		raw:    make(chan struct{}, 1),
		names:  map[int]map[string]bool{}, paths: map[int]string{}, writing: map[string]time.Time{},
	}, nil
}

// Changes has an element when something may have changed.
func (w *Watcher) Changes() <-chan struct{} { return w.raw }

// Watch watches what a set was read from, beside what is watched already. What has changed since it was read counts as a
// change that comes now, and so does what may have: of two changes at one moment, which the file system stamps alike, it is not
// known which was read.
func (w *Watcher) Watch(set Set) error {
	visited := map[string]bool{}
	for _, path := range set.paths() {
		if err := w.watchPath(path, mostLinks, visited); err != nil {
			return fmt.Errorf("watch %s: %w", path, err)
		}
	}
	if !set.IsCurrent() || set.isYoung() {
		w.tell()
	}
	return nil
}

// mostLinks is how many links the kernel follows.
const mostLinks = 40

// watchPath watches what is at a path, for a file may be written to through another name, and its name in each directory on
// the way, as far as the file system goes that it is on: what lies above a mount does not change it. Where a link is on the
// way, the same goes for the path that it leads to.
func (w *Watcher) watchPath(path string, links int, visited map[string]bool) error {
	if err := w.add(path, ""); err != nil {
		return err
	}
	for path != "/" && !visited[path] {
		visited[path] = true
		dir := filepath.Dir(path)
		if err := w.add(dir, filepath.Base(path)); err != nil {
			return err
		}
		if target, err := os.Readlink(path); err == nil && links > 0 {
			if !filepath.IsAbs(target) {
				target = filepath.Join(dir, target)
			}
			if err := w.watchPath(target, links-1, visited); err != nil {
				return err
			}
		}
		if here, above := lookAtName(dir), lookAtName(filepath.Dir(dir)); here != (state{}) && here.dev != above.dev {
			return nil
		}
		path = dir
	}
	return nil
}

// lookAtName is look for the name itself, which may be that of a link.
func lookAtName(path string) state {
	var s unix.Stat_t
	if unix.Lstat(path, &s) != nil {
		return state{}
	}
	return stateOf(&s)
}

// add watches a path for changes of a name in it, or, without one, for all. What cannot be watched because it is not there,
// or because this user may not read it, is left out: the directory above shows when that ends.
func (w *Watcher) add(path, name string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	watch, err := unix.InotifyAddWatch(w.fd, path, interesting)
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.EACCES),
		errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENAMETOOLONG):
		return nil
	case errors.Is(err, unix.ENOSPC):
		return errors.New("this user watches too many files: raise the sysctl fs.inotify.max_user_watches")
	case err != nil:
		return err
	}
	w.paths[watch] = path
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
	stop := context.AfterFunc(ctx, w.close)
	defer stop()
	raw, err := w.queue.SyscallConn()
	if err == nil {
		var failed error
		err = raw.Read(func(uintptr) (done bool) { // It is called whenever there are events.
			failed = w.drain()
			return failed != nil
		})
		err = errors.Join(err, failed)
	}
	if ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("read of changes of files: %w", err)
}

// close ends the watching. From then on the number of the descriptor may be another file's.
func (w *Watcher) close() {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	_ = w.queue.Close() // It waits for Run, which may be about to take the lock.
}

// Writing reports whether somebody has begun to write a file and has not closed it. It knows of all writes before the call. A
// writer that has written nothing for a time is not waited for.
func (w *Watcher) Writing(path string) (since time.Time, is bool) {
	_ = w.drain() // Run reports what is wrong.
	w.mu.Lock()
	defer w.mu.Unlock()
	since, is = w.writing[path]
	return since, is && time.Since(since) < longestWrite
}

// longestWrite is how long a writer may rest.
const longestWrite = 10 * time.Second

// drain takes all events that there are.
func (w *Watcher) drain() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	buffer := make([]byte, 64<<10)
	for {
		if w.closed {
			return os.ErrClosed
		}
		n, err := unix.Read(w.fd, buffer)
		switch {
		case errors.Is(err, unix.EAGAIN):
			return nil
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return err
		}
		if w.matters(buffer[:n]) {
			w.tell()
		}
	}
}

// matters tells whether one of the events is of something that is watched for. An event is the number of the watch, a mask,
// a number that we do not need, the length of the name, and the name with NUL bytes behind it. w.mu is held.
func (w *Watcher) matters(events []byte) bool {
	matter := false
	for len(events) >= unix.SizeofInotifyEvent {
		watch := int(int32(binary.NativeEndian.Uint32(events))) //nolint:gosec // The kernel's number is signed.
		mask, length := binary.NativeEndian.Uint32(events[4:]), int(binary.NativeEndian.Uint32(events[12:]))
		name := string(bytes.TrimRight(events[unix.SizeofInotifyEvent:unix.SizeofInotifyEvent+length], "\x00"))
		events = events[unix.SizeofInotifyEvent+length:]
		w.noteWriting(filepath.Join(w.paths[watch], name), mask)
		isHalf := w.moment == WhenClosed && mask == unix.IN_MODIFY
		matter = !isHalf && w.isAwaited(watch, mask, name) || matter
		if mask&unix.IN_IGNORED != 0 {
			delete(w.names, watch)
			delete(w.paths, watch)
		}
	}
	return matter
}

// noteWriting remembers that a file is being written, or is not any more. What was made a moment ago and is empty is going to be.
func (w *Watcher) noteWriting(path string, mask uint32) {
	switch {
	case w.moment == EachWrite:
	case mask&(unix.IN_CLOSE_WRITE|unix.IN_DELETE|unix.IN_DELETE_SELF|unix.IN_MOVED_FROM|unix.IN_MOVED_TO) != 0:
		delete(w.writing, path)
	case mask&unix.IN_MODIFY != 0, mask&unix.IN_CREATE != 0 && isEmptyFile(path):
		w.writing[path] = time.Now()
	}
}

func isEmptyFile(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.Mode().IsRegular() && info.Size() == 0
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
