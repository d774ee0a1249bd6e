package soak

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// How many readers there are, and how often each of them reads a volume before it goes to the next.
const (
	readers    = 2
	readings   = 60
	betweenMax = 4 * time.Millisecond
)

// startReaders has volumes read all the time, until the returned function is called.
func (r *run) startReaders() (stop func()) {
	ctx, cancel := context.WithCancel(r.t.Context())
	var wg sync.WaitGroup
	for i := range readers {
		random := rand.New(rand.NewPCG(r.seed, uint64(i)+1))
		wg.Go(func() {
			for ctx.Err() == nil && !r.failed.Load() {
				r.readOne(ctx, random)
			}
		})
	}
	random := rand.New(rand.NewPCG(r.seed, 0))
	wg.Go(func() {
		for ctx.Err() == nil && !r.failed.Load() {
			r.beHasty(ctx, random)
		}
	})
	return func() {
		cancel()
		wg.Wait()
	}
}

// readOne reads one volume a number of times.
func (r *run) readOne(ctx context.Context, random *rand.Rand) {
	v := r.anyLive(random)
	if v == nil {
		pause(ctx, 10*time.Millisecond)
		return
	}
	for range readings {
		r.resting.RLock()
		isLive, err := r.look(v)
		r.resting.RUnlock()
		if err != nil {
			r.failf("a reader of volume %s (%s): %v", v, v.describe(), err)
		}
		if !isLive || err != nil || ctx.Err() != nil {
			return
		}
		pause(ctx, time.Duration(random.Int64N(int64(betweenMax))))
	}
}

// anyLive returns a live volume; nil when there is none.
func (r *run) anyLive(random *rand.Rand) *vol {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []*vol
	for _, p := range sortedPods(r.pods) {
		for _, v := range p.volumes {
			if v.state == live {
				all = append(all, v)
			}
		}
	}
	if len(all) == 0 {
		return nil
	}
	return all[random.IntN(len(all))]
}

// look reads a volume once, if it is live, and judges what was read.
func (r *run) look(v *vol) (isLive bool, err error) {
	v.gate.RLock()
	defer v.gate.RUnlock()
	r.mu.Lock()
	isLive, f := v.state == live, floorsOf(v)
	r.mu.Unlock()
	if !isLive {
		return false, nil
	}
	r.reads.Add(1)
	s, err := v.read()
	if err != nil {
		return true, err
	}
	r.mu.Lock()
	err = r.judge(v, s, f)
	if err == nil && v.policy == neverPolicy && v.pinned == nil {
		v.pinned = s.sums()
	}
	r.mu.Unlock()
	if err != nil && v.isPlain() { // A directory that changes may be listed with names missing.
		return true, r.lookAgain(v, f)
	}
	return true, err
}

// lookAgain reports whether what was wrong with plain files was more than a directory that was listed while it changed.
func (r *run) lookAgain(v *vol, f floors) error {
	var err error
	for range 3 {
		var s snapshot
		if s, err = v.read(); err != nil {
			return err
		}
		r.mu.Lock()
		err = r.judge(v, s, f)
		r.mu.Unlock()
		if err == nil {
			return nil
		}
	}
	return err
}
