package cluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

const (
	dirPattern = "liveconfig-cluster-*"
	lockName   = "lock"
)

// directory is where a cluster keeps everything. Its owner holds a lock in it while it lives. A process that is killed
// cannot remove its directory, but it drops the lock, so that the next cluster can do it.
type directory struct {
	path string
	lock *os.File
}

// newDirectory makes a directory that only this user can enter, and removes those whose owners are dead.
func newDirectory() (*directory, error) {
	if err := removeAbandoned(os.TempDir()); err != nil {
		return nil, fmt.Errorf("remove what an earlier cluster left: %w", err)
	}
	path, err := os.MkdirTemp("", dirPattern)
	if err != nil {
		return nil, fmt.Errorf("make the cluster's directory: %w", err)
	}
	d := &directory{path: path}
	if err := d.claim(); err != nil {
		return nil, errors.Join(fmt.Errorf("lock the cluster's directory: %w", err), d.remove())
	}
	return d, nil
}

// claim gives the lock its name when it is held: a lock that can be found and taken belongs to nobody.
func (d *directory) claim() (err error) {
	path := filepath.Join(d.path, lockName)
	if d.lock, err = os.OpenFile(path+".new", os.O_CREATE|os.O_RDWR, 0o600); err != nil {
		return err
	}
	if err := unix.Flock(int(d.lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// remove removes the directory before it gives up the lock, so that nobody else does it at the same time. A second
// remove does nothing.
func (d *directory) remove() error {
	err := os.RemoveAll(d.path)
	if d.lock != nil {
		err = errors.Join(err, d.lock.Close())
		d.lock = nil
	}
	return err
}

func removeAbandoned(temp string) error {
	locks, err := filepath.Glob(filepath.Join(temp, dirPattern, lockName))
	if err != nil {
		return err
	}
	for _, path := range locks {
		lock, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			continue // It is another user's, or it has just been removed.
		}
		d := &directory{path: filepath.Dir(path), lock: lock}
		if unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
			_ = lock.Close() // Its owner is alive. The descriptor was never written to.
			continue
		}
		if err := d.remove(); err != nil {
			return err
		}
	}
	return nil
}
