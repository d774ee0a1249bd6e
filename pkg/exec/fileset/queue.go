package fileset

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// interesting are the events of a change: of bytes, of names, and of permissions.
const interesting = unix.IN_MODIFY | unix.IN_CLOSE_WRITE | unix.IN_ATTRIB | unix.IN_CREATE | unix.IN_DELETE |
	unix.IN_MOVED_FROM | unix.IN_MOVED_TO | unix.IN_DELETE_SELF | unix.IN_MOVE_SELF

// queue is an instance of inotify: the kernel's events of the files that are watched.
type queue struct {
	moment Moment
	// file is read, and fd is its descriptor: to ask the file for it would have reads hold up the
	// close.
	file *os.File
	fd   int

	mu sync.Mutex // Guards the fields below, and is held while events are read.
	// names are those that matter, by the watch of the directory that they are in; nil are all.
	names map[int]map[string]bool
	// paths are what is watched, by the watch.
	paths map[int]string
	// writing are the files that somebody has begun to write and has not closed, with the last
	// write. Only with [WhenClosed].
	writing map[string]time.Time
	closed  bool
}

func openQueue(moment Moment) (*queue, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	switch {
	case errors.Is(err, unix.EMFILE):
		return nil, errors.New("watch files: too many processes of this user watch files: raise the sysctl " +
			"fs.inotify.max_user_instances")
	case err != nil:
		return nil, fmt.Errorf("watch files: %w", err)
	}
	return &queue{
		moment: moment, file: os.NewFile(uintptr(fd), "inotify"), fd: fd,
		names: map[int]map[string]bool{}, paths: map[int]string{}, writing: map[string]time.Time{},
	}, nil
}

// watch watches what a set was read from, beside what is watched already. After an error some of it
// is watched.
func (q *queue) watch(set Set) error {
	visited := map[string]bool{}
	for _, path := range set.paths() {
		if err := q.watchPath(path, mostLinks, visited); err != nil {
			return fmt.Errorf("watch %s: %w", path, err)
		}
	}
	return nil
}

// mostLinks is how many links the kernel follows.
const mostLinks = 40

// watchPath watches what is at a path, for a file may be written to through another name, and its
// name in each directory on the way, as far as the file system goes that it is on: what lies above
// a mount does not change it. Where a link is on the way, the same goes for the path that it leads
// to.
func (q *queue) watchPath(path string, links int, visited map[string]bool) error {
	if err := q.add(path, ""); err != nil {
		return err
	}
	for path != "/" && !visited[path] {
		visited[path] = true
		dir := filepath.Dir(path)
		if err := q.add(dir, filepath.Base(path)); err != nil {
			return err
		}
		if target, err := os.Readlink(path); err == nil && links > 0 {
			if !filepath.IsAbs(target) {
				target = filepath.Join(dir, target)
			}
			if err := q.watchPath(target, links-1, visited); err != nil {
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

// add watches a path for changes of a name in it, or, without one, for all. Anything that cannot be
// watched because it is not there, or because this user may not read it, is left out: the directory
// above shows when that ends.
func (q *queue) add(path, name string) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return os.ErrClosed
	}
	watch, err := unix.InotifyAddWatch(q.fd, path, interesting)
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.EACCES),
		errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENAMETOOLONG):
		return nil
	case errors.Is(err, unix.ENOSPC):
		return errors.New("this user watches too many files: raise the sysctl fs.inotify.max_user_watches")
	case err != nil:
		return err
	}
	q.paths[watch] = path
	names, known := q.names[watch]
	switch {
	case name == "":
		q.names[watch] = nil
	case !known:
		q.names[watch] = map[string]bool{name: true}
	case names != nil:
		names[name] = true
	}
	return nil
}

// read calls notify when something may have changed, until the queue is closed or cannot be read.
func (q *queue) read(notify func()) error {
	raw, err := q.file.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Read(func(uintptr) (done bool) { // It is called whenever there are events.
		failed = q.drain(notify)
		return failed != nil
	})
	return errors.Join(err, failed)
}

// close ends the watching. From then on the number of the descriptor may be another file's.
func (q *queue) close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	_ = q.file.Close() // It waits for read, which may be about to take the lock.
}

// findsWriter reports whether somebody has begun to write a file and has not closed it. It reads
// all events before, as read does.
func (q *queue) findsWriter(path string, notify func()) bool {
	_ = q.drain(notify) // read returns what is wrong.
	q.mu.Lock()
	defer q.mu.Unlock()
	since, is := q.writing[path]
	return is && time.Since(since) < longestWrite
}

// longestWrite is how long a writer may rest.
const longestWrite = 10 * time.Second

// drain takes all events that there are, and calls notify if one of them matters.
func (q *queue) drain(notify func()) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	buffer := make([]byte, 64<<10)
	for {
		if q.closed {
			return os.ErrClosed
		}
		n, err := unix.Read(q.fd, buffer)
		switch {
		case errors.Is(err, unix.EAGAIN):
			return nil
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return err
		}
		if q.matters(buffer[:n]) {
			notify()
		}
	}
}

// matters reports whether one of the events is of something that is watched for. An event is the
// number of the watch, a mask, a number that we do not need, the length of the name, and the name
// with NUL bytes behind it. q.mu is held.
func (q *queue) matters(events []byte) bool {
	matter := false
	for len(events) >= unix.SizeofInotifyEvent {
		watch := int(int32(binary.NativeEndian.Uint32(events))) //nolint:gosec // The kernel's number is signed.
		mask, length := binary.NativeEndian.Uint32(events[4:]), int(binary.NativeEndian.Uint32(events[12:]))
		name := string(bytes.TrimRight(events[unix.SizeofInotifyEvent:unix.SizeofInotifyEvent+length], "\x00"))
		events = events[unix.SizeofInotifyEvent+length:]
		q.noteWriting(filepath.Join(q.paths[watch], name), mask)
		isHalf := q.moment == WhenClosed && mask == unix.IN_MODIFY
		matter = !isHalf && q.isAwaited(watch, mask, name) || matter
		if mask&unix.IN_IGNORED != 0 {
			delete(q.names, watch)
			delete(q.paths, watch)
		}
	}
	return matter
}

// noteWriting remembers that a file is being written, or is not any more. A file that was created a
// moment ago and is empty is going to be.
func (q *queue) noteWriting(path string, mask uint32) {
	switch {
	case q.moment == EachWrite:
	case mask&(unix.IN_CLOSE_WRITE|unix.IN_DELETE|unix.IN_DELETE_SELF|unix.IN_MOVED_FROM|unix.IN_MOVED_TO) != 0:
		delete(q.writing, path)
	case mask&unix.IN_MODIFY != 0, mask&unix.IN_CREATE != 0 && isEmptyFile(path):
		q.writing[path] = time.Now()
	}
}

func isEmptyFile(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.Mode().IsRegular() && info.Size() == 0
}

// isAwaited reports whether an event is of something that is watched for. That of a whole queue
// that ran over is.
func (q *queue) isAwaited(watch int, mask uint32, name string) bool {
	names, known := q.names[watch]
	switch {
	case mask&unix.IN_Q_OVERFLOW != 0:
		return true
	case !known:
		return false
	}
	return names == nil || name == "" || names[name]
}
