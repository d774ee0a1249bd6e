package plan

import (
	"slices"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/release"
)

// togetherTime is how long all objects of a group are exposed to all pods before the first of them
// is promoted: drivers hear of each by another watch.
const togetherTime = time.Second

// pause returns how long the current step lasts.
func (r run) pause(current release.Exposure) time.Duration {
	switch {
	case current.State == release.Promoting:
		return togetherTime
	case !r.isForAll(current):
		return r.Settings.Pause
	case r.sharesFiles():
		return max(r.Settings.Pause, r.Settings.Watch)
	}
	return max(togetherTime, r.Settings.Watch)
}

// isForAll reports whether the steps are over, and all pods have the candidates.
func (r run) isForAll(current release.Exposure) bool {
	return current.Step > len(r.Settings.Steps) && current.Threshold >= 1
}

// isStagedForAll reports whether all pods get the candidates before these are promoted.
func (r run) isStagedForAll(current release.Exposure) bool {
	return len(r.changed) > 1 || r.Settings.Watch > 0 || r.isUnproven(current)
}

// sharesFiles reports whether some pods can have the edit together only.
func (r run) sharesFiles() bool {
	return slices.ContainsFunc(r.Pods, func(p Pod) bool { return p.SharesWith != "" && !p.HasFailed })
}

// isUnproven reports whether pods that share files were too many for every step. Then all pods have
// the edit for one more step, after which it can still be taken back.
func (r run) isUnproven(current release.Exposure) bool {
	return len(r.Settings.Steps) > 0 && slices.ContainsFunc(r.Pods, func(p Pod) bool {
		return p.SharesWith != "" && !p.HasFailed && !r.hasCandidate(current, p)
	})
}

// next returns the step after a current one.
func (r run) next(current release.Exposure) Decision {
	if next, isStep := r.nextStep(current); isStep {
		return r.expose(next)
	}
	if r.isForAll(current) || !r.isStagedForAll(current) {
		return Decision{Action: Promote, Names: r.names()}
	}
	current.State, current.Step, current.Since = release.Progressing, len(r.Settings.Steps)+1, r.Now
	current.Threshold, current.Pods, current.Reason = 1, nil, ""
	return r.expose(current)
}

// nextStep returns the first step by which more pods have the candidate than now. So steps that are
// one pod each, as 1 and 5 % of ten pods, are one step, and a change of the steps takes nobody the
// candidate and gives it to nobody at once. Without pods each step counts: those of other
// namespaces get their share.
func (r run) nextStep(current release.Exposure) (next release.Exposure, isStep bool) {
	shown := r.countShown(current)
	for i, step := range r.Settings.Steps {
		next := r.share(current, step)
		next.State, next.Step, next.Since, next.Reason = release.Progressing, i+1, r.Now, ""
		if r.countShown(next) > shown || len(Running(r.Unit)) == 0 && i >= current.Step {
			return next, true
		}
	}
	return release.Exposure{}, false
}

// countShown returns how many of the pods that run have the candidate.
func (r run) countShown(e release.Exposure) (count int) {
	e.Digest = r.changed[0].Candidate
	for _, p := range Running(r.Unit) {
		if r.hasCandidate(e, p) {
			count++
		}
	}
	return count
}

// spread gives an exposure to the objects that do not have it. If all pods have the candidates by
// it, the time until the promotion begins with the last write.
func (r run) spread(e release.Exposure) Decision {
	if !e.State.IsFinal() && e.Step > len(r.Settings.Steps) {
		e.Since = r.Now
	}
	d := r.expose(e)
	d.Names = r.lacking(e)
	return d
}

func (r run) expose(e release.Exposure) Decision {
	e.Digest = ""
	d := Decision{Action: Expose, Names: r.names(), Exposure: e}
	if !e.State.IsFinal() {
		d.After = max(e.Since.Add(r.pause(e)).Sub(r.Now), time.Millisecond)
	}
	return d
}
