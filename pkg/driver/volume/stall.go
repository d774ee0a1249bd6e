package volume

import (
	"fmt"
	"sync"
	"time"
)

// stuckAfter is how long work on one volume may take, or wait, before something must be wrong with
// the process itself. All of it is a few milliseconds of system calls that never wait for the
// network.
const stuckAfter = 2 * time.Minute

// probeInterval is how often the manager checks that its locks are free.
const probeInterval = 15 * time.Second

// stallDetector reports work that does not go on. The zero value has seen no work.
type stallDetector struct {
	mu      sync.Mutex // Guards the fields below, and nothing else: a deadlock of other locks must not reach it.
	next    int
	tasks   map[int]task
	waiting time.Time // Since when volumes are queued and no worker takes one; zero if the queue moves.
	probing time.Time // Since when a probe waits for locks; zero between probes.
}

// task is the work on one volume: a sync, or the part of a call that does not wait for a source.
type task struct {
	volumeID string
	since    time.Time
}

// begin notes work on the volume until the returned function is called.
func (d *stallDetector) begin(volumeID string) (end func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.tasks == nil {
		d.tasks = map[int]task{}
	}
	d.next++
	id := d.next
	d.tasks[id] = task{volumeID: volumeID, since: time.Now()}
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.tasks, id)
	}
}

// beginQueued is begin for a volume from the queue, which shows that the queue moves.
func (d *stallDetector) beginQueued(volumeID string) (end func()) {
	d.noteQueued(0)
	return d.begin(volumeID)
}

// age returns for how long the volume has been worked on; zero if it is not.
func (d *stallDetector) age(volumeID string, now time.Time) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	age := time.Duration(0)
	for _, t := range d.tasks {
		if t.volumeID == volumeID {
			age = max(age, now.Sub(t.since))
		}
	}
	return age
}

// noteQueued notes how many volumes wait in the queue.
func (d *stallDetector) noteQueued(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case n == 0:
		d.waiting = time.Time{}
	case d.waiting.IsZero():
		d.waiting = time.Now()
	}
}

// beginProbe notes that a probe waits for locks until the returned function is called.
func (d *stallDetector) beginProbe() (end func()) {
	d.setProbing(time.Now())
	return func() { d.setProbing(time.Time{}) }
}

func (d *stallDetector) setProbing(since time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.probing = since
}

// check returns an error for work that has lasted too long by now.
func (d *stallDetector) check(now time.Time) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	isStuck := func(since time.Time) bool { return !since.IsZero() && now.Sub(since) > stuckAfter }
	var oldest task
	for _, t := range d.tasks {
		if oldest.since.IsZero() || t.since.Before(oldest.since) {
			oldest = t
		}
	}
	switch {
	case isStuck(d.probing):
		return fmt.Errorf("a lock that all volumes need has not been free since %s", d.probing.UTC().Format(time.RFC3339))
	case isStuck(oldest.since):
		return fmt.Errorf("volume %s has been worked on since %s", oldest.volumeID, oldest.since.UTC().Format(time.RFC3339))
	case isStuck(d.waiting):
		return fmt.Errorf("volumes have been waiting to be worked on since %s", d.waiting.UTC().Format(time.RFC3339))
	}
	return nil
}
