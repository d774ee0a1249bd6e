package state

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// ErrTaken is wrapped by the error of [Lock.Check] when another process has the state directory.
var ErrTaken = errors.New("another driver has the state directory")

// Holder is what the process that has a state directory writes about itself, for those that wait
// for its end.
type Holder struct {
	// Name is that of its host, which for a pod is the pod's name, and Namespace the pod's
	// namespace.
	Name      string `json:"name,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	// PID is its process ID as its own container sees it.
	PID     int    `json:"pid,omitempty"`
	Node    string `json:"node,omitempty"`
	Version string `json:"version,omitempty"`
	// Since is when it got the directory.
	Since time.Time `json:"since,omitzero"`
}

// String describes the holder to people.
func (h Holder) String() string {
	if h == (Holder{}) {
		return "a driver that has not written its name"
	}
	name := h.Name
	if h.Namespace != "" {
		name = h.Namespace + "/" + h.Name
	}
	return fmt.Sprintf("%s (process %d, node %s, version %s), since %s", name, h.PID, h.Node, h.Version,
		h.Since.UTC().Format(time.RFC3339))
}

// Lock is the right to work with a state directory. One process of a host has it at a time, through
// whatever mounts it reaches the directory. A process has it until its end: only the kernel takes
// it away, when the last thread is gone, so that nothing of the one process is at work any more
// when the next one gets it.
//
// The lock is on the directory of the records, which only root can open. So there is no lock
// file that somebody could remove, or that would have to be made on a full disk. The file that
// names the holder is for people and locks nothing.
//
// Calls must not overlap, but for Holder.
type Lock struct {
	records, note string
	self          Holder
	fd            int // Of the locked directory.
}

// NewLock returns the lock of a state directory for a process that calls itself self. It has not
// been taken yet.
func NewLock(dir string, self Holder) *Lock {
	return &Lock{records: recordsOf(dir), note: filepath.Join(dir, "holder.json"), self: self}
}

// Take waits for the lock and takes it. It makes the directory with mode 0700 where it is missing,
// and changes nothing in it until it has the lock. When ctx ends first its error is returned; one
// thread of the process then waits on.
func (l *Lock) Take(ctx context.Context) error {
	for {
		isTaken, err := l.TryTake()
		if isTaken || err != nil {
			return err
		}
		if err := l.wait(ctx); err != nil {
			return err
		}
	}
}

// TryTake takes the lock unless another process has it.
func (l *Lock) TryTake() (isTaken bool, err error) {
	fd, err := l.open()
	if err != nil {
		return false, fmt.Errorf("lock the state directory: %w", err)
	}
	err = l.flock(fd, unix.LOCK_EX|unix.LOCK_NB)
	if err != nil {
		err = errors.Join(err, unix.Close(fd))
	}
	switch {
	case errors.Is(err, unix.EWOULDBLOCK):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("lock the state directory: %w", err)
	}
	l.fd, l.self.Since = fd, time.Now().UTC().Truncate(time.Second)
	_ = l.sign() // [Lock.Check] tries again, and returns why it fails.
	return true, nil
}

// wait returns when the process that has the lock has ended, or ctx has. The kernel has no way to
// stop waiting.
func (l *Lock) wait(ctx context.Context) error {
	fd, err := l.open()
	if err != nil {
		return fmt.Errorf("lock the state directory: %w", err)
	}
	ended := make(chan error, 1)
	go func() {
		err := l.flock(fd, unix.LOCK_EX)
		ended <- errors.Join(err, unix.Close(fd)) // That unlocks: the directory may have been replaced meanwhile.
	}()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Check sees that the lock, which has been taken, is on the directory that is at the path now, and
// that the holder's name is there. A directory that somebody has removed is made again and locked.
// The error wraps [ErrTaken] if another process was faster: the directory is its own then.
func (l *Lock) Check() error {
	isHere, err := l.isAtPath()
	if err == nil && !isHere {
		err = l.takeAgain()
	}
	if err != nil || l.Holder() == l.self {
		return err
	}
	return l.sign()
}

// takeAgain takes the directory that is there in place of the one that was locked.
func (l *Lock) takeAgain() error {
	before := l.fd
	isTaken, err := l.TryTake()
	switch {
	case err != nil:
		return err
	case !isTaken:
		return fmt.Errorf("%s was removed or replaced, and since then %w: %s", l.records, ErrTaken, l.Holder())
	}
	return unix.Close(before)
}

// Holder returns who got the directory last, as it wrote itself; the zero value where that cannot
// be read.
func (l *Lock) Holder() Holder {
	var h Holder
	text, err := os.ReadFile(l.note)
	if err != nil || json.Unmarshal(text, &h) != nil {
		return Holder{}
	}
	return h
}

// sign writes who holds the lock, in place of who held it before. Where that fails nobody is named.
func (l *Lock) sign() error {
	text, err := json.Marshal(l.self)
	if err == nil {
		err = os.WriteFile(l.note, append(text, '\n'), 0o600) //nolint:forbidigo // Nothing reads half a name.
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write the holder of the state directory: %w", err), remove(l.note))
	}
	return nil
}

// open returns a descriptor of the directory of the records. It is not an [os.File]: the garbage
// collector closes those, and with the descriptor the process would lose the lock.
func (l *Lock) open() (fd int, err error) {
	if err := os.MkdirAll(l.records, 0o700); err != nil {
		return -1, err
	}
	return open(l.records, unix.O_RDONLY|unix.O_DIRECTORY)
}

// flock locks a directory.
func (l *Lock) flock(fd, how int) error {
	return pathError("flock", l.records, uninterrupted(func() error { return unix.Flock(fd, how) }))
}

// isAtPath reports whether the path leads to the directory that is locked.
func (l *Lock) isAtPath() (bool, error) {
	var locked, atPath unix.Stat_t
	err := uninterrupted(func() error { return unix.Stat(l.records, &atPath) })
	if errors.Is(err, unix.ENOENT) {
		return false, nil
	}
	err = errors.Join(err, unix.Fstat(l.fd, &locked))
	return locked.Dev == atPath.Dev && locked.Ino == atPath.Ino, pathError("stat", l.records, err)
}

func pathError(op, path string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: path, Err: err}
}

// uninterrupted calls again as long as a signal has interrupted the call.
func uninterrupted(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
