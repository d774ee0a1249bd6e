package update

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// dataLink is what both kinds of volumes rename when their files are new.
const dataLink = "..data"

// eyes see when files of volumes are new. One inotify instance watches the directories of all volumes, and one goroutine
// reads: what is measured is not held up by those who measure.
type eyes struct {
	inotify *os.File
	done    chan struct{} // Closed when run has returned.

	mu     sync.Mutex          // Guards the fields below.
	byID   map[int32][]*volume // Those that share their files have one directory, and one watch of the kernel's.
	broken error               // Why run has given up.
}

// volume is a directory that is watched.
type volume struct {
	dir string
	fd  int // A handle of it, by which its files are read: 110 long paths would take longer than an update.

	// The fields below are guarded by the lock of the eyes.
	want int             // The version that is waited for; 0 for none.
	seen chan<- sighting // Gets when it, or a later one, was read, or why it cannot be. Then nothing is waited for.
}

func newEyes() (*eyes, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, os.NewSyscallError("inotify_init1", err)
	}
	e := &eyes{inotify: os.NewFile(uintptr(fd), "inotify"), done: make(chan struct{}), byID: map[int32][]*volume{}}
	go func() {
		defer close(e.done)
		e.run()
	}()
	return e, nil
}

// close ends the watching. It must not be called while something is waited for.
func (e *eyes) close() error {
	err := e.inotify.Close()
	<-e.done
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, volumes := range e.byID {
		for _, v := range volumes {
			err = errors.Join(err, unix.Close(v.fd))
		}
	}
	e.byID = nil
	return err
}

func (e *eyes) watch(dir string) (*volume, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	raw, err := e.inotify.SyscallConn()
	if err != nil {
		return nil, err
	}
	var id int
	var addErr error
	err = raw.Control(func(fd uintptr) { id, addErr = unix.InotifyAddWatch(int(fd), dir, unix.IN_MOVED_TO|unix.IN_ONLYDIR) })
	if err := errors.Join(err, addErr); err != nil {
		return nil, fmt.Errorf("watch %s: %w", dir, err)
	}
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: dir, Err: err}
	}
	v := &volume{dir: dir, fd: fd}
	wd := int32(id) //nolint:gosec // The kernel's are of 32 bits.
	e.byID[wd] = append(e.byID[wd], v)
	return v, nil
}

// expect returns a channel that gets, once, the moment at which a version of the payload, or a later one, was read from the
// volume. Call it before the version is written.
func (e *eyes) expect(v *volume, version int) <-chan sighting {
	seen := make(chan sighting, 1)
	e.mu.Lock()
	defer e.mu.Unlock()
	v.want = version
	v.seen = seen
	if e.broken != nil {
		v.tell(sighting{err: e.broken})
	}
	return seen
}

// expectAll is [eyes.expect] of each of the volumes.
func (e *eyes) expectAll(volumes []*volume, version int) []<-chan sighting {
	all := make([]<-chan sighting, 0, len(volumes))
	for _, v := range volumes {
		all = append(all, e.expect(v, version))
	}
	return all
}

// sighting is the moment at which something was read, or why it was not.
type sighting struct {
	at  time.Time
	err error
}

// tell answers anyone who waits. The lock of the eyes is held.
func (v *volume) tell(s sighting) {
	if v.seen != nil {
		v.seen <- s
	}
	v.want, v.seen = 0, nil
}

// run reads events until the instance is closed.
func (e *eyes) run() {
	buffer := make([]byte, 64<<10)
	for {
		n, err := e.inotify.Read(buffer)
		if err != nil {
			e.fail(err)
			return
		}
		for rest := buffer[:n]; len(rest) >= unix.SizeofInotifyEvent; {
			event := (*unix.InotifyEvent)(unsafe.Pointer(&rest[0])) //nolint:gosec // So the kernel writes it.
			end := unix.SizeofInotifyEvent + int(event.Len)
			name := string(bytes.TrimRight(rest[unix.SizeofInotifyEvent:end], "\x00"))
			e.look(event, name)
			rest = rest[end:]
		}
	}
}

func (e *eyes) fail(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.broken = fmt.Errorf("read events of volumes: %w", err)
	for _, volumes := range e.byID {
		for _, v := range volumes {
			v.tell(sighting{err: e.broken})
		}
	}
}

// look reads the volumes that an event is about.
func (e *eyes) look(event *unix.InotifyEvent, name string) {
	if event.Mask&unix.IN_Q_OVERFLOW != 0 {
		e.fail(errors.New("the kernel has dropped some"))
		return
	}
	if name != dataLink {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	var at time.Time
	for _, v := range e.byID[event.Wd] {
		if v.seen == nil {
			continue
		}
		version, err := v.readVersion()
		if at.IsZero() {
			at = time.Now() // The one rename is for all: that others are read later is the benchmark's time, not theirs.
		}
		if err != nil || version >= v.want {
			v.tell(sighting{at: at, err: err})
		}
	}
}

func (v *volume) readVersion() (int, error) {
	path := filepath.Join(v.dir, payloadKey)
	fd, err := unix.Openat(v.fd, payloadKey, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	var head [versionDigits]byte
	if _, err := unix.Pread(fd, head[:], 0); err != nil {
		return 0, &os.PathError{Op: "read", Path: path, Err: err}
	}
	return strconv.Atoi(string(head[:]))
}
