package volume

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/driver/source"
)

// stuckAfter is how long work on one volume may take, or be waited for, before something must be wrong with the process
// itself: all of it is a few milliseconds of system calls that never wait for the network.
const stuckAfter = 2 * time.Minute

// pulseInterval is how often the heart beats.
const pulseInterval = 15 * time.Second

// pulse notes what shows that work goes on. The zero value has nothing to do.
type pulse struct {
	mu      sync.Mutex // Guards the fields below; held for nothing else, so that a deadlock of other locks can be told.
	next    int
	tasks   map[int]task
	waiting time.Time // Since when volumes are queued of which none is taken; zero for not at all.
	beating time.Time // Since when the heart waits for locks; zero while it rests.
}

// task is one volume that is being worked on: synced, or made or taken away by a call. A call that waits for a source is not
// at work.
type task struct {
	volumeID string
	since    time.Time
}

// took is works for a volume that was taken from the queue, whose others do not wait in vain.
func (p *pulse) took(volumeID string) (done func()) {
	p.queued(0)
	return p.works(volumeID)
}

// works notes that the volume is being worked on until the returned function is called.
func (p *pulse) works(volumeID string) (done func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.tasks == nil {
		p.tasks = map[int]task{}
	}
	p.next++
	id := p.next
	p.tasks[id] = task{volumeID: volumeID, since: time.Now()}
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.tasks, id)
	}
}

// age returns for how long the volume has been worked on; zero for not at all.
func (p *pulse) age(volumeID string, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	age := time.Duration(0)
	for _, t := range p.tasks {
		if t.volumeID == volumeID {
			age = max(age, now.Sub(t.since))
		}
	}
	return age
}

// queued notes how many volumes wait to be worked on.
func (p *pulse) queued(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case n == 0:
		p.waiting = time.Time{}
	case p.waiting.IsZero():
		p.waiting = time.Now()
	}
}

// beats notes that the heart waits for locks until the returned function is called.
func (p *pulse) beats() (done func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.beating = time.Now()
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.beating = time.Time{}
	}
}

// check returns what has been going on for too long at the time.
func (p *pulse) check(now time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	isStuck := func(since time.Time) bool { return !since.IsZero() && now.Sub(since) > stuckAfter }
	var oldest task
	for _, t := range p.tasks {
		if oldest.since.IsZero() || t.since.Before(oldest.since) {
			oldest = t
		}
	}
	switch {
	case isStuck(p.beating):
		return fmt.Errorf("a lock that all volumes need has not been free since %s", p.beating.UTC().Format(time.RFC3339))
	case isStuck(oldest.since):
		return fmt.Errorf("volume %s has been worked on since %s", oldest.volumeID, oldest.since.UTC().Format(time.RFC3339))
	case isStuck(p.waiting):
		return fmt.Errorf("volumes have been waiting to be worked on since %s", p.waiting.UTC().Format(time.RFC3339))
	}
	return nil
}

// beat takes, now and then, the locks that everything else takes, so that a deadlock shows by its absence. Watches take them
// for each thing they hear: while they are free no watch waits for them. Whether a watch hears anything is not proved.
func (m *Manager) beat(ctx context.Context) error {
	ticker := time.NewTicker(pulseInterval)
	defer ticker.Stop()
	for {
		done := m.pulse.beats()
		_ = m.Volumes()
		_ = m.cfg.Sources.Get(source.Key{})
		m.pulse.queued(m.queue.Len())
		done()
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// Healthy returns nil while work goes on, and else what is stuck, where a restart of the driver may help. An API server
// that is away, or a node that refuses to write, is not the driver's health. It waits for nothing.
func (m *Manager) Healthy() error { return m.pulse.check(time.Now()) }
