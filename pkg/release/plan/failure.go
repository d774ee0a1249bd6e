package plan

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/release"
	"github.com/liveconfig-csi/liveconfig/pkg/release/settings"
)

// watch ends a release whose pods fail, and brings it no further.
func (r run) watch() Decision {
	r.changed = slices.DeleteFunc(r.changed, func(o Object) bool { return o.Exposure.Digest != o.Candidate })
	if len(r.changed) == 0 {
		return Decision{Action: Rest}
	}
	furthest := slices.MaxFunc(r.changed, func(a, b Object) int { return compare(a.Exposure, b.Exposure) }).Exposure
	if furthest.State.IsFinal() && !r.isSpread(furthest) {
		return r.spread(furthest)
	}
	if failed, isNeeded := r.failLeast(); isNeeded {
		return failed
	}
	return Decision{Action: Rest}
}

// failLeast ends a release if a pod fails that has all candidates, also those whose exposure is a
// write behind that of others.
func (r run) failLeast() (d Decision, isNeeded bool) {
	least := slices.MinFunc(r.changed, func(a, b Object) int { return compare(a.Exposure, b.Exposure) }).Exposure
	isOther := func(o Object) bool {
		return o.Exposure.Digest != o.Candidate || !maps.Equal(o.Exposure.With, least.With)
	}
	if !least.State.IsStep() || slices.ContainsFunc(r.changed, isOther) {
		return d, false
	}
	failure := r.failure(least)
	if failure == "" {
		return d, false
	}
	return r.fail(least, failure), true
}

// failure returns why the release must not go on; empty for no reason.
func (r run) failure(e release.Exposure) string {
	if r.Settings.Check == settings.CheckNone || e.State == release.Promoting {
		return ""
	}
	for _, p := range r.Pods {
		if !r.hasCandidate(e, p) {
			continue
		}
		if failure := p.failure(e.Since, r.Now, r.Settings.Pause); failure != "" {
			return fmt.Sprintf("pod %s has the edit and %s", p.Name, failure)
		}
	}
	return ""
}

// restarting returns how much longer the release waits for pods that exited to read the candidate
// and are starting again. It is zero if no pod is doing that.
func (r run) restarting(e release.Exposure) (rest time.Duration) {
	if r.Settings.Check == settings.CheckNone || e.State == release.Promoting {
		return 0
	}
	for _, p := range Running(r.Unit) {
		if until := p.restartsUntil(e.Since, r.Settings.Pause); r.hasCandidate(e, p) && !until.IsZero() {
			rest = max(rest, until.Sub(r.Now))
		}
	}
	return rest
}

// isDisrupted reports whether pods have the candidate, and none of them can prove anything.
func (r run) isDisrupted(e release.Exposure) bool {
	isWatched := e.State.IsStep() && r.Settings.Check == settings.CheckReady
	return isWatched && !r.isShown(e) &&
		slices.ContainsFunc(r.Pods, func(p Pod) bool { return p.IsDisrupted && r.hasCandidate(e, p) })
}

func (r run) hasCandidate(e release.Exposure, p Pod) bool { return e.Shows(p.UID, e.Digest) }

func (r run) fail(current release.Exposure, reason string) Decision {
	if r.Settings.OnFailure == settings.Freeze {
		current.State, current.Since, current.Reason = release.Frozen, r.Now, reason
		return r.expose(r.fixed(current))
	}
	return r.expose(release.Exposure{
		With: current.With, State: release.Reverted, Step: current.Step, Since: r.Now, Reason: reason,
	})
}

// end returns what is left to do when a release has ended.
func (r run) end(current release.Exposure) Decision {
	if current.State != release.Frozen {
		return r.takeBack()
	}
	if fixed := r.fixed(current); fixed.Threshold != current.Threshold {
		return r.expose(fixed) // A person has frozen it.
	}
	if current.Rules != r.rules() { // Pods have the edit still.
		return r.check(current)
	}
	return Decision{Action: Rest}
}

// fixed returns an exposure that names the pods that have the candidate, so that no new pod gets
// it. An exposure of more pods than one may name stays as it is.
func (r run) fixed(e release.Exposure) release.Exposure {
	e.Digest = r.changed[0].Candidate
	var uids []string
	for _, p := range r.Pods {
		if r.hasCandidate(e, p) {
			uids = append(uids, p.UID)
		}
	}
	if e.Threshold == 0 || len(uids) > release.MostPods {
		return e
	}
	slices.Sort(uids)
	e.Threshold, e.Pods = 0, uids
	return e
}
