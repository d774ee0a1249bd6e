package soak

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/liveconfig-csi/liveconfig/test/kit/fixture"
)

// restTimeout is how long a node may take to come to rest when all is well again.
const restTimeout = 90 * time.Second

// mostTries is at how many rests a volume that cannot be published is tried.
const mostTries = 3

// rest makes all well again, waits until every volume is what it must be, and looks for what must not be left.
func (r *run) rest() {
	r.log.step("rest")
	r.makeWell()
	r.tryPending()
	r.resting.Lock()
	defer r.resting.Unlock()
	begin := time.Now()
	proven := map[watched]int{}
	for _, v := range r.allVolumes(isLive) {
		err := until(restTimeout-time.Since(begin), func() error { return r.settle(v, proven) })
		if err != nil {
			r.failf("volume %s (%s) after %s of rest: %v", v, v.describe(), time.Since(begin).Round(time.Second), err)
		}
	}
	r.checkNode()
	r.checkSharing()
	r.checkLog()
	r.markRested(proven)
	r.rests++
	r.conditions.Lock()
	r.isUpset = false
	r.conditions.Unlock()
	r.log.note("  rested after %s: %d volumes", time.Since(begin).Round(time.Millisecond), len(r.allVolumes(isLive)))
}

// checkSharing counts the volumes that have the files of another one. If the driver has the flag not to share, it wants 0.
func (r *run) checkSharing() {
	files, live := map[uint64]bool{}, r.allVolumes(isLive)
	for _, v := range live {
		var st unix.Stat_t
		if err := unix.Stat(v.target, &st); err != nil {
			r.failf("volume %s: %v", v, err)
			return
		}
		files[st.Dev] = true
	}
	shared := len(live) - len(files)
	r.shared = max(r.shared, shared)
	if shared > 0 && r.flag == dontShare {
		r.failf("%d volumes have the files of another one, want none with %s", shared, r.flag)
	}
}

// makeWell brings back what is away, and does what the kubelet does then.
func (r *run) makeWell() {
	if r.linkIs != "" {
		r.heal()
	}
	if !r.apiUp {
		r.startServer()
	}
	if !r.driverUp {
		r.startDriver()
	}
	for _, p := range r.podsThat(func(p *pod) bool { return p.leaving }) {
		r.clear(p)
	}
	each(r.allVolumes(func(v *vol) bool { return isLive(v) && !v.known }), r.republish)
}

func (r *run) podsThat(are func(*pod) bool) []*pod {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.DeleteFunc(sortedPods(r.pods), func(p *pod) bool { return !are(p) })
}

// tryPending publishes what can be published, and wants the rest refused. Pods that wait for too long are deleted.
func (r *run) tryPending() {
	each(r.allVolumes(isPending), func(v *vol) {
		err := until(restTimeout, func() error { return r.tryOne(v) })
		if err != nil {
			r.failf("volume %s (%s): %v", v, v.describe(), err)
		}
	})
	for _, p := range r.podsThat(func(p *pod) bool {
		return slices.ContainsFunc(p.volumes, func(v *vol) bool { return v.tries >= mostTries })
	}) {
		r.leave(p)
		r.clear(p)
	}
}

// tryOne returns an error while the answer is not the one that must come in the end.
func (r *run) tryOne(v *vol) error {
	isSure, err := r.publishOnce(v)
	r.mu.Lock()
	defer r.mu.Unlock()
	hope, _ := r.hopesOf(v)
	switch {
	case v.state == live && err == nil:
		return nil // If it should not have come to that, its files show it.
	case hope == current:
		return fmt.Errorf("all is there, but a publish gives: %w", err)
	case !isSure:
		return err
	}
	v.tries++
	return nil
}

// settle returns an error while a live volume is not what it must become. What is proven of what its readers know is
// remembered.
func (r *run) settle(v *vol, proven map[watched]int) error {
	s, err := v.read()
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	hope, exact := r.hopesOf(v)
	switch {
	case v.policy == neverPolicy && v.pinned != nil, hope != current && v.policy != neverPolicy:
		err = r.judge(v, s, floorsOf(v))
	case v.policy == neverPolicy:
		err = errors.Join(v.identify(s), r.judgeSet(v, s, r.windows(v, floorsOf(v))))
	default:
		if err = r.judgeCurrent(v, s, exact); err == nil {
			r.raise(v, s)
			r.prove(v, proven)
		}
	}
	if err != nil {
		return err
	}
	if v.policy != neverPolicy && r.mayBeBehind(v) {
		v.pinned = nil
		return nil
	}
	v.pinned, v.pinnedAt = s.sums(), map[ref]int{}
	for _, src := range v.sources {
		v.pinnedAt[src.ref] = r.objects[src.ref].latest()
	}
	return nil
}

// prove remembers how new that is which the readers of a current volume know.
func (r *run) prove(v *vol, proven map[watched]int) {
	for _, src := range v.sources {
		by, _ := r.readerOf(v, src.ref)
		w := watched{by, src.ref}
		proven[w] = max(proven[w], v.floor[src.ref])
	}
}

// markRested remembers what nothing older can follow.
func (r *run) markRested(proven map[watched]int) {
	isLong := r.hasLongBeenWell()
	r.mu.Lock()
	defer r.mu.Unlock()
	used := r.usedLocked()
	for _, o := range r.objects {
		for _, by := range r.readersOf(o.ref) {
			w := watched{by, o.ref}
			switch {
			case !used[w]:
				r.rested[w] = o.latest() // The first volume that uses it reads it again.
			default:
				r.rested[w] = max(r.rested[w], proven[w])
			}
		}
	}
	for rd, a := range r.access {
		if !isLong || time.Since(a.changed) < noticeAfter {
			continue
		}
		a.doubted = false
		if a.level != nothing {
			continue
		}
		if a.blindTo == nil {
			a.blindTo = map[ref]int{}
			for _, o := range r.objects {
				if o.namespace == rd.namespace {
					a.blindTo[o.ref] = o.latest()
				}
			}
		}
	}
}

// readersOf returns the identities that may read an object for a volume.
func (m *model) readersOf(at ref) []reader {
	if at.kind == configMap && at.namespace == m.home {
		return []reader{{}}
	}
	var all []reader
	for _, account := range accounts {
		all = append(all, reader{account, at.namespace})
	}
	return all
}

// usedLocked returns what the driver has to watch. The model's lock is held.
func (m *model) usedLocked() map[watched]bool {
	used := map[watched]bool{}
	for _, p := range m.pods {
		for _, v := range p.volumes {
			if v.state != live || v.policy == neverPolicy {
				continue
			}
			for _, src := range v.sources {
				by, _ := m.readerOf(v, src.ref)
				used[watched{by, src.ref}] = true
			}
		}
	}
	return used
}

// cleanUp takes away the volumes of a run that has failed, so that nothing is complained about but that.
func (r *run) cleanUp() {
	if !r.driverUp {
		r.startDriver()
	}
	for _, v := range r.allVolumes(isAny) {
		_ = r.takeAway(v)
	}
}

// endAll takes all pods away and wants nothing to be left.
func (r *run) endAll() {
	for _, p := range r.podsThat(func(*pod) bool { return true }) {
		r.leave(p)
		r.clear(p)
	}
	r.log.step("the end")
	r.checkNode()
	r.checkLog()
	if entries, err := os.ReadDir(filepath.Join(r.bench.Node.KubeletDir(), "pods")); err == nil && len(entries) > 0 {
		r.failf("%d directories of pods are left", len(entries))
	}
	const slack = 25
	err := until(fixture.Soon, func() error {
		now, err := r.usage()
		if err == nil && now.goroutines > r.baseline.goroutines+slack {
			err = fmt.Errorf("%d goroutines without volumes, and %d at the start", now.goroutines, r.baseline.goroutines)
		}
		return err
	})
	if err != nil {
		r.failf("the end: %v", err)
	}
}
