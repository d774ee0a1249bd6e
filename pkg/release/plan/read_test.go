package plan_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/release"
	"github.com/liveconfig-csi/liveconfig/pkg/release/plan"
)

// newReading returns a world with an edit that has two pods in its last step.
func newReading(t *testing.T, canProve bool, pause time.Duration) *world {
	t.Helper()
	w := newWorld(t, 8, fmt.Sprintf("{steps: [2], pause: %s}", pause), web)
	w.unit.CanProve = canProve
	w.edit(web, "2")
	w.do()
	w.wantShown(2, release.Progressing)
	return w
}

// forBoth runs a test with and without drivers that can be asked.
func forBoth(t *testing.T, run func(t *testing.T, canProve bool)) {
	t.Helper()
	for _, canProve := range []bool{false, true} {
		t.Run(fmt.Sprint("can prove: ", canProve), func(t *testing.T) {
			t.Parallel()
			run(t, canProve)
		})
	}
}

// TestAnOutageOverTheEndOfAStep: however long it lasts, a pod that has failed meanwhile takes the edit back afterwards.
func TestAnOutageOverTheEndOfAStep(t *testing.T) {
	t.Parallel()
	forBoth(t, func(t *testing.T, canProve bool) {
		t.Helper()
		for _, outage := range []time.Duration{3 * time.Second, 8 * time.Second, time.Minute, 6 * time.Hour} {
			for _, late := range []time.Duration{0, 2 * time.Second, 10 * time.Second} { // Until the kubelet reports it.
				w := newReading(t, canProve, 10*time.Second)
				w.pass(8 * time.Second).do()
				w.isAway = true
				for end := w.unit.Now.Add(outage); w.unit.Now.Before(end); {
					w.pass(outage / 10).do()
					w.wantShown(2, release.Progressing)
				}
				w.isAway, w.unit.Reads.BrokenAt = false, w.unit.Now
				w.do()
				w.pass(late).do()
				w.wantShown(2, release.Progressing)
				w.spoilOne(func(p *plan.Pod) { p.IsReady, p.Changed = false, w.unit.Now })
				w.do()
				w.wantShown(0, release.Reverted)
			}
		}
	})
}

// TestAnOutageOfAGoodEdit delays it by no more than the grace.
func TestAnOutageOfAGoodEdit(t *testing.T) {
	t.Parallel()
	forBoth(t, func(t *testing.T, canProve bool) {
		t.Helper()
		w := newReading(t, canProve, 10*time.Second)
		w.pass(9 * time.Second)
		w.unit.Reads.BrokenAt = w.unit.Now
		w.pass(11 * time.Second).do()
		w.wantShown(2, release.Progressing)
		w.pass(time.Second).do()
		w.wantStable("2")
	})
}

// TestAReadThatIsOlderThanTheEnd of a step ends nothing, and neither does one that is too old, or from before the clock went back.
// There is one read for each end.
func TestAReadThatIsOlderThanTheEnd(t *testing.T) {
	t.Parallel()
	forBoth(t, func(t *testing.T, canProve bool) {
		t.Helper()
		for _, age := range []time.Duration{time.Millisecond, time.Second, time.Hour, -time.Hour} {
			w := newReading(t, canProve, 30*time.Second)
			w.pass(30 * time.Second)
			w.unit.Reads.At = w.unit.Now.Add(-age)
			w.isAway = true
			for range 100 {
				w.do()
				w.wantShown(2, release.Progressing)
			}
			w.isAway = false
			w.do()
			w.wantStable("2")
			if w.reads != 1 {
				t.Errorf("pods were read %d times, want once", w.reads)
			}
		}
	})
}

// TestTheClockJumps far beyond the end of a step: that needs a read all the same, after a grace.
func TestTheClockJumps(t *testing.T) {
	t.Parallel()
	forBoth(t, func(t *testing.T, canProve bool) {
		t.Helper()
		w := newReading(t, canProve, 30*time.Second)
		w.read()
		w.pass(time.Hour)
		w.unit.Reads.BrokenAt = w.unit.Now
		for range 12 {
			w.do()
			w.wantShown(2, release.Progressing)
			w.pass(time.Second)
		}
		w.isAway = true
		w.pass(time.Hour).do()
		w.wantShown(2, release.Progressing)
	})
}

// TestAControllerThatHasJustStarted does not know whether the API server was away: it waits too, but no longer than a pause.
func TestAControllerThatHasJustStarted(t *testing.T) {
	t.Parallel()
	for pause, grace := range map[time.Duration]time.Duration{5 * time.Second: 5 * time.Second, time.Hour: 12 * time.Second} {
		w := newReading(t, false, pause)
		w.pass(2 * time.Hour)
		w.unit.Reads.Since = w.unit.Now
		w.pass(grace - time.Millisecond).do()
		w.wantShown(2, release.Progressing)
		w.pass(time.Millisecond).do()
		w.wantStable("2")
	}
}

// TestAReleaseAfterAnOutage begins with pods as they are then: what has happened to them before is no failure of the edit.
func TestAReleaseAfterAnOutage(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		ago, read time.Duration // Since the outage, and since the last read before the edit.
		want      int
	}{
		{ago: 0, read: time.Second, want: 1},
		{ago: 10 * time.Second, read: 9 * time.Second, want: 0},
		{ago: 30 * time.Second, read: 15 * time.Second, want: 1},
		{ago: 59 * time.Second, read: 2 * time.Minute, want: 1},
		{ago: time.Minute, read: 2 * time.Minute, want: 0},
	} {
		w := newWorld(t, 8, "{steps: [2], pause: 10s}", web)
		w.unit.Reads.BrokenAt, w.unit.Reads.At = w.unit.Now.Add(-tc.ago), w.unit.Now.Add(-tc.read)
		w.edit(web, "2")
		w.isAway = true
		w.do()
		if tc.want > 0 {
			w.wantShown(0, "")
		} else {
			w.wantShown(2, release.Progressing)
		}
		w.isAway = false
		w.do()
		w.wantShown(2, release.Progressing)
		if w.reads != tc.want {
			t.Errorf("%s after an outage, and %s after a read, pods were read %d times, want %d", tc.ago, tc.read, w.reads, tc.want)
		}
	}
}

// TestAReleaseThatJudgesNoPod begins whatever is known of pods.
func TestAReleaseThatJudgesNoPod(t *testing.T) {
	t.Parallel()
	for annotation, want := range map[string]func(w *world){
		"{steps: []}":                           func(w *world) { w.wantStable("2") },
		"{steps: [2], pause: 10s, check: none}": func(w *world) { w.wantShown(2, release.Progressing) },
	} {
		w := newWorld(t, 8, annotation, web)
		w.unit.Reads.BrokenAt, w.isAway = w.unit.Now, true
		w.edit(web, "2")
		w.do()
		want(w)
	}
}
