package plan

import (
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/release"
)

const (
	// graceTime is how long no step ends after a time in which failures of pods may not have
	// reached the API server: a kubelet reports again after ten seconds at most.
	graceTime = 12 * time.Second
	// readTime is how old a read may be.
	readTime = 15 * time.Second
	// watchTime is how long after an outage the watch of pods may be away still: the library waits
	// for so long at most before it tries again.
	watchTime = time.Minute
)

// Reads is how well the pods of a unit are known.
type Reads struct {
	// At is when the last read from the API server began. Pods are those that it has found, or
	// newer ones. It is zero for no read.
	At time.Time
	// Since is when the controller began to watch them.
	Since time.Time
	// BrokenAt is when the connection to the API server was last seen to be broken, or the clock to
	// jump; zero for never.
	BrokenAt time.Time
}

// read decides what to do at the end of a step, unless the pods are known as they are after it. A
// cache of them may be behind without knowing it, so no time alone ends a step.
func (r run) read(current release.Exposure) (d Decision, isNeeded bool) {
	if !current.State.IsStep() {
		return Decision{}, false // A person promotes it.
	}
	from := current.Since.Add(r.pause(current))
	from = later(from, r.Reads.Since.Add(min(graceTime, r.Settings.Pause)))
	from = later(from, r.Reads.BrokenAt.Add(graceTime))
	at := r.Reads.At
	switch rest := from.Sub(r.Now); {
	case rest > 0:
		return Decision{Action: Rest, After: rest}, true
	case at.Before(from) || at.After(r.Now) || r.Now.Sub(at) >= readTime:
		return Decision{Action: Read}, true
	}
	return Decision{}, false
}

// mayBeOld reports whether the pods may be those of before an outage. Then a pod that was not Ready
// for a moment before a release begins would count as one that the edit has harmed.
func (r run) mayBeOld() bool {
	at, broken := r.Reads.At, r.Reads.BrokenAt
	return r.Now.Sub(broken) < watchTime && (at.Before(broken) || r.Now.Sub(at) >= readTime)
}
