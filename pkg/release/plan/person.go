package plan

import "github.com/liveconfig-csi/liveconfig/pkg/release"

// End returns what a person does who takes the candidates of a unit back, or freezes them. Rest
// means that it is done, or that there is no candidate. Promote means that it is too late: some
// objects of a group are promoted, and the others must be.
//
// The objects are written in the order of their names, as the controller writes them. So of two
// that act at the same time the first object stops one, before it has done half of it.
func End(u Unit, state release.State, reason string) Decision {
	r := newRun(u)
	if half := r.halfPromoted(); len(half) > 0 {
		return Decision{Action: Promote, Names: half}
	}
	e, isUnderWay := r.current()
	switch {
	case len(r.changed) == 0:
		return Decision{Action: Rest}
	case !isUnderWay:
		e = release.Exposure{With: r.with}
	case e.State == state && e.Reason == reason && r.isSpread(e):
		return Decision{Action: Rest}
	case e.State == state && e.Reason == reason:
		return r.spread(e)
	}
	if state == release.Reverted {
		e.Threshold, e.Pods = 0, nil
	}
	e.State, e.Since, e.Reason, e.Rules = state, u.Now, reason, ""
	return r.expose(e)
}

// Promotion returns what a person does next who has all pods get the candidates of a unit. Those of
// several objects are shown to all pods before the first one is promoted, and it is Rest until
// then. Rest without a time means that it is done.
func Promotion(u Unit, reason string) Decision {
	r := newRun(u)
	half := r.halfPromoted()
	e, isUnderWay := r.current()
	isPromoting := isUnderWay && e.State == release.Promoting
	switch {
	case len(r.changed) == 0:
		return Decision{Action: Rest}
	case len(half) > 0:
		return Decision{Action: Promote, Names: half}
	case len(r.changed) == 1:
		return Decision{Action: Promote, Names: r.names()}
	case isPromoting && !r.isSpread(e):
		return r.spread(e)
	case isPromoting:
		if rest := e.Since.Add(togetherTime).Sub(u.Now); rest > 0 {
			return Decision{Action: Rest, After: rest}
		}
		return Decision{Action: Promote, Names: r.names()}
	}
	return r.expose(release.Exposure{
		With: r.with, Threshold: 1, State: release.Promoting, Step: len(u.Settings.Steps) + 1, Since: u.Now, Reason: reason,
	})
}
