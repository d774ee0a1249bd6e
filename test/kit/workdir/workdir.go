// Package workdir makes directories for what tests start, and removes those that a killed process has left behind.
//
// It does not know what is kept in them.
package workdir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

const lockName = "lock"

// Dir is a directory whose owner holds a lock in it while it lives. A process that is killed cannot remove its directory,
// but it drops the lock, so that the next one can do it.
type Dir struct {
	path string
	lock *os.File
}

// New makes a directory that only this user can enter, in the directory for temporary files. It first removes those of the
// same prefix whose owners are dead. The caller must call [Dir.Remove].
func New(prefix string) (*Dir, error) {
	if err := removeAbandoned(os.TempDir(), prefix); err != nil {
		return nil, fmt.Errorf("remove what an earlier run left: %w", err)
	}
	path, err := os.MkdirTemp("", prefix+"*")
	if err != nil {
		return nil, fmt.Errorf("make a working directory: %w", err)
	}
	d := &Dir{path: path}
	if err := d.claim(); err != nil {
		return nil, errors.Join(fmt.Errorf("lock the working directory: %w", err), d.Remove())
	}
	return d, nil
}

// Path is where the directory is.
func (d *Dir) Path() string { return d.path }

// claim gives the lock its name when it is held: a lock that can be found and taken belongs to nobody.
func (d *Dir) claim() (err error) {
	path := filepath.Join(d.path, lockName)
	if d.lock, err = os.OpenFile(path+".new", os.O_CREATE|os.O_RDWR, 0o600); err != nil {
		return err
	}
	if err := unix.Flock(int(d.lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// Remove removes the directory before it gives up the lock, so that nobody else does it at the same time. A second Remove
// does nothing.
func (d *Dir) Remove() error {
	err := os.RemoveAll(d.path)
	if d.lock != nil {
		err = errors.Join(err, d.lock.Close())
		d.lock = nil
	}
	return err
}

func removeAbandoned(temp, prefix string) error {
	locks, err := filepath.Glob(filepath.Join(temp, prefix+"*", lockName))
	if err != nil {
		return err
	}
	for _, path := range locks {
		lock, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			continue // It is another user's, or it has just been removed.
		}
		d := &Dir{path: filepath.Dir(path), lock: lock}
		if unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
			_ = lock.Close() // Its owner is alive. The descriptor was never written to.
			continue
		}
		if err := d.Remove(); err != nil {
			return err
		}
	}
	return nil
}
