package release

import (
	"math/rand/v2"
	"time"
)

// somePod returns a pod; nil for none.
func (s *survival) somePod(r *rand.Rand) *program {
	l := s.someLoad(r)
	all := l.all()
	if len(all) == 0 {
		return nil
	}
	return all[r.IntN(len(all))]
}

// evictPod has a pod be evicted, and another one take its place.
func (s *survival) evictPod(r *rand.Rand) {
	p := s.somePod(r)
	p.set(func() { p.isEvicted, p.sickTill = true, time.Now().Add(time.Hour) })
	s.healIn(time.Duration(r.IntN(2000))*time.Millisecond, "evicted pod", func() { s.replace(p) })
}

func (s *survival) deletePod(r *rand.Rand) { s.replace(s.somePod(r)) }

// replace has a pod end and another one take its place, unless it has ended.
func (s *survival) replace(p *program) {
	p.mu.Lock()
	isLeaving := p.isLeaving
	p.mu.Unlock()
	if isLeaving {
		return
	}
	p.load.stopPod(p)
	p.load.startPod(s.T.Context(), p.at)
}

// scale adds pods, or takes some away.
func (s *survival) scale(r *rand.Rand) {
	l := s.someLoad(r)
	for want := 3 + r.IntN(5); len(l.all()) != want; {
		if all := l.all(); len(all) > want {
			l.stopPod(all[r.IntN(len(all))])
		} else {
			l.startPod(s.T.Context(), s.machines[len(all)%len(s.machines)])
		}
	}
}

// makeSick has a pod be not Ready for a while, whatever it reads.
func (s *survival) makeSick(r *rand.Rand) {
	p := s.somePod(r)
	p.set(func() { p.sickTill = time.Now().Add(time.Duration(r.IntN(5000)) * time.Millisecond) })
}

// crash has a container of a pod end with an error, and start again.
func (s *survival) crash(r *rand.Rand) {
	p := s.somePod(r)
	p.set(func() {
		p.restarts, p.crashed = p.restarts+1, time.Now()
		p.sickTill = p.crashed.Add(time.Duration(r.IntN(1000)) * time.Millisecond)
	})
}
