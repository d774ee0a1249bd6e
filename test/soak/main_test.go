// Package soak does things at random to the whole driver, a real process before a real API server with real mounts, and
// compares it with a model that knows what every volume must hold: pods come, go and are replaced, objects change, access
// is taken and given, the driver and the API server are killed, the network between them fails, the state directory is lost.
//
// LIVECONFIG_SEED repeats a run, as far as the timing of processes lets it be repeated, and LIVECONFIG_SOAK_TIME is how
// long to go on, as in 5m. What was done is kept in bin/test/soak-SEED--share-volumes=….log when the test fails.
package soak

import (
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
	"github.com/liveconfig-csi/liveconfig/test/kit/soak"
)

func TestMain(m *testing.M) { os.Exit(environment.Main(m)) }

// How long things are done in each way: a moment in a run of all tests, half an hour where there is time.
const (
	usualSeconds = 10
	soakSeconds  = 1800
)

// Flags of the driver.
const (
	share     = "--share-volumes=true"
	dontShare = "--share-volumes=false"
)

// TestTheNodeSurvivesAnything does things at random until the time is over, and every now and then lets the node come to
// rest: then every volume holds what its sources have, and nothing is left of what is gone. Readers look at volumes all the
// time. Equal volumes share their files, or do not.
func TestTheNodeSurvivesAnything(t *testing.T) {
	for _, flag := range []string{share, dontShare} {
		t.Run(flag, func(t *testing.T) { surviveAnything(newRun(t, seed(t), flag), duration(t)) })
	}
}

func surviveAnything(r *run, d time.Duration) {
	stopReaders := r.startReaders()
	end := time.Now().Add(d)
	for time.Now().Before(end) && !r.hasFailed() {
		r.step()
	}
	if !r.hasFailed() {
		r.rest()
	}
	stopReaders()
	if r.hasFailed() {
		r.cleanUp()
	} else {
		r.endAll()
	}
	r.finish()
}

func seed(t *testing.T) uint64 {
	t.Helper()
	return soak.Asked(t, "LIVECONFIG_SEED", rand.Uint64(), func(text string) (uint64, error) { return strconv.ParseUint(text, 10, 64) })
}

func duration(t *testing.T) time.Duration {
	t.Helper()
	usual := time.Duration(soak.Rounds(usualSeconds, soakSeconds)) * time.Second
	return soak.Asked(t, "LIVECONFIG_SOAK_TIME", usual, time.ParseDuration)
}

// step is one thing to do, now and then.
type step struct {
	name   string
	weight int
	can    bool
	do     func()
}

// step does one thing at random, or lets the node rest.
func (r *run) step() {
	r.sinceRest++
	if r.sinceRest > r.restAfter {
		r.rest()
		r.sinceRest, r.restAfter = 0, 30+r.rand.IntN(120)
		return
	}
	all := slices.DeleteFunc(r.steps(), func(s step) bool { return !s.can })
	sum := 0
	for _, s := range all {
		sum += s.weight
	}
	n := r.rand.IntN(sum)
	for _, s := range all {
		if n -= s.weight; n < 0 {
			r.log.step(s.name)
			s.do()
			break
		}
	}
	if r.rand.IntN(3) == 0 {
		pause(r.t.Context(), time.Duration(r.rand.IntN(60))*time.Millisecond)
	}
}

// steps are what can be done now.
func (r *run) steps() []step {
	volumes := len(r.allVolumes(isAny))
	driver, server := r.driverUp, r.apiUp
	hasRoom := volumes < mostVolumes-5 && len(r.pods) < mostPods
	pod := r.anyPod()
	hasLive, hasPending := len(r.allVolumes(isLive)) > 0, len(r.allVolumes(isPending)) > 0
	return slices.Concat(r.objectSteps(), []step{
		{"new pod", 14 - volumes/6, driver && server && hasRoom, r.doNewPod},
		{"repeat some", 5, driver && hasLive, func() { each(r.some(r.allVolumes(isLive), 3), r.republish) }},
		{"restart the kubelet", 2, driver && hasLive, func() { each(r.allVolumes(isLive), r.republish) }},
		{"try pending", 3, driver && hasPending, func() { each(r.some(r.allVolumes(isPending), 4), r.publish) }},
		{"delete pod", 4 + volumes/10, driver && server && pod != nil, func() { r.leave(pod); r.clear(pod) }},
		{"delete pod while the driver is away", 4, !driver && server && pod != nil, func() { r.leave(pod) }},
		{"replace pod", 2, driver && server && pod != nil, func() { r.doReplacePod(pod) }},
		{"unpublish an unknown volume", 1, driver, r.unpublishUnknown},
		{"take access between rests", 1, r.isWell() && hasLive, r.doTakeAccess},
		{"everything at once", 2, driver && server && pod != nil && hasRoom, func() { r.doEverything(pod) }},
	}, r.nodeSteps(), r.serverSteps())
}

func (r *run) objectSteps() []step {
	with := func(is func(*object) bool, do func(*object)) func() {
		return func() {
			if o := r.anyObject(is); o != nil {
				do(o)
			}
		}
	}
	server := r.apiUp
	return []step{
		{"edit", 30, server, with(canChange, r.edit)},
		{"edit in a row", 3, server, func() {
			if o := r.anyObject(canChange); o != nil {
				for range 5 + r.rand.IntN(20) {
					r.edit(o)
				}
			}
		}},
		{"annotate", 3, server, with(exists, r.annotate)},
		{"make immutable", 1, server, with(canChange, r.freeze)},
		{"delete object", 5, server, with(exists, r.remove)},
		{"create object", 8, server, with(isMissing, r.create)},
		{"replace object", 3, server, with(exists, func(o *object) { r.remove(o); r.create(o) })},
		{"take access", 3, server, func() { r.upset(); r.setAccess(r.anyReader(), level(r.rand.IntN(3)/2)) }},
		{"give access", 6, server, func() { r.upset(); r.setAccess(r.anyReader(), everything) }},
	}
}

func (r *run) doNewPod() {
	p := r.newPod("pod-" + r.name())
	each(slices.Clone(p.volumes), r.publish)
}

// doReplacePod deletes a pod and makes one of the same name, the volumes of which are published before those of the first
// are gone, or after.
func (r *run) doReplacePod(old *pod) {
	r.leave(old)
	isLate := r.rand.IntN(2) == 0
	if isLate {
		r.clear(old)
	}
	next := r.newPod(old.Name)
	each(slices.Clone(next.volumes), r.publish)
	if !isLate {
		r.clear(old)
	}
}

// doTakeAccess takes from a pod what its files have to go with, while nothing else happens by which the driver could find
// out.
func (r *run) doTakeAccess() {
	for _, v := range r.some(r.allVolumes(isLive), mostVolumes) {
		for _, src := range v.sources {
			rd, isPods := r.readerOf(v, src.ref)
			if !isPods || !v.removes || v.policy == neverPolicy || r.accessOf(v, src.ref).level == nothing {
				continue
			}
			r.rest()
			r.upset()
			r.setAccess(rd, nothing)
			r.rest()
			return
		}
	}
}

// doEverything makes calls for many volumes at the same time, edits objects meanwhile, and may kill the driver amid that.
func (r *run) doEverything(old *pod) {
	next := r.newPod("pod-" + r.name())
	r.leave(old)
	again := r.some(r.allVolumes(isLive), 6)
	isKilled := r.rand.IntN(2) == 0
	if isKilled {
		r.upset()
	}
	calls := []func(*vol){r.publish, r.unpublish, r.republish}
	if isKilled { // What was not answered is called for again.
		calls = []func(*vol){
			func(v *vol) { _, _ = r.publishOnce(v) },
			func(v *vol) { _ = r.takeAway(v) },
			func(v *vol) { _ = r.repeat(v) },
		}
	}
	var wg sync.WaitGroup
	for i, volumes := range [][]*vol{slices.Clone(next.volumes), slices.Clone(old.volumes), again} {
		wg.Go(func() { each(volumes, calls[i]) })
	}
	for range 1 + r.rand.IntN(8) {
		if o := r.anyObject(canChange); o != nil {
			r.edit(o)
		}
	}
	if isKilled {
		r.killDriver()
		r.startDriver()
	}
	wg.Wait()
	r.clear(old)
}
