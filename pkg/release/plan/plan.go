// Package plan decides what to do next about a release: from objects, pods and the clock,
// and from nothing else. It does not know the API server.
package plan

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/release"
	"github.com/liveconfig-csi/liveconfig/pkg/release/settings"
)

// Unit is what is released together: one object, or those of a group.
type Unit struct {
	Settings settings.Settings
	// Objects are sorted by name. Each has a stable copy.
	Objects []Object
	// Pods are those that use one of the objects, in any order.
	Pods []Pod
	// Reads is how well Pods are known.
	Reads Reads
	// Quiet is how long the objects of a group must be unchanged before the first step.
	Quiet time.Duration
	// CanProve is whether drivers can be asked what files have.
	CanProve bool
	// IsHeld is whether an annotation has a mistake. Then pods that have a candidate are watched,
	// and no other pod gets one.
	IsHeld bool
	Now    time.Time
}

// Object is one released object with its stable copy.
type Object struct {
	// Name is as [release.NameOf] writes it.
	Name string
	// Version is the resource version of the object.
	Version string
	// Candidate is the digest of the object, and Stable that of its copy.
	Candidate, Stable string
	Exposure          release.Exposure
	// Together is that of the release of several objects by which the copy was promoted.
	Together string
	// ChangedAt is when the object was last changed.
	ChangedAt time.Time
	// Rules stands for its annotation.
	Rules string
}

func (o Object) isChanged() bool { return o.Candidate != o.Stable }

// Action is what to do.
type Action string

// The actions.
const (
	// Rest: there is nothing to do, at least until After.
	Rest Action = "Rest"
	// Clear: the exposures of objects without a candidate go.
	Clear Action = "Clear"
	// Check: the candidates are new. If a rule does not hold, they are refused, and else exposed as
	// the decision has.
	Check Action = "Check"
	// Expose: the exposures of the candidates become those of the decision.
	Expose Action = "Expose"
	// Ask: the drivers of pods are asked what the files have. Then it is decided again.
	Ask Action = "Ask"
	// Read: the pods are read from the API server. Then it is decided again.
	Read Action = "Read"
	// Promote: the copies become the candidates.
	Promote Action = "Promote"
)

// Decision is an action with what belongs to it.
type Decision struct {
	Action Action
	// Names are the objects that it is about.
	Names []string
	// Exposure is for Check and Expose. The digest in it is empty: each object has another one.
	Exposure release.Exposure
	// Pods are those to ask about.
	Pods []Pod
	// After is when to look again; zero for when something changes.
	After time.Duration
	// Doubt is why pods may still have candidates that were taken back; empty for no reason.
	Doubt string
	// Confirmed is of how many pods, that had candidates which were taken back, it is known that
	// their files do not have them.
	Confirmed int
}

// Decide returns what to do next.
func Decide(u Unit) Decision {
	r := newRun(u)
	if stale := u.stale(); len(stale) > 0 {
		return Decision{Action: Clear, Names: stale}
	}
	if len(r.changed) == 0 {
		return Decision{Action: Rest}
	}
	if half := r.halfPromoted(); len(half) > 0 {
		return Decision{Action: Promote, Names: half}
	}
	if u.IsHeld {
		return r.watch()
	}
	return r.decide()
}

// stale returns the objects that have an exposure and no candidate.
func (u Unit) stale() (names []string) {
	for _, o := range u.Objects {
		if !o.isChanged() && o.Exposure.Digest != "" {
			names = append(names, o.Name)
		}
	}
	return names
}

// run is a unit with a candidate.
type run struct {
	Unit

	changed []Object
	with    map[string]string
}

func newRun(u Unit) run {
	changed := slices.DeleteFunc(slices.Clone(u.Objects), func(o Object) bool { return !o.isChanged() })
	return run{Unit: u, changed: changed, with: withOf(u, changed)}
}

func (r run) names() []string {
	names := make([]string, len(r.changed))
	for i, o := range r.changed {
		names[i] = o.Name
	}
	return names
}

func (r run) decide() Decision {
	current, isUnderWay := r.current()
	isSpread := r.isSpread(current)
	switch {
	case !isUnderWay:
		return r.begin()
	case current.State.IsFinal() && isSpread:
		return r.end(current)
	case !isSpread: // A group, of which some objects are a write ahead.
		if failed, isNeeded := r.failLeast(); isNeeded && current.State.IsStep() {
			return failed
		}
		return r.spread(current)
	}
	if failure := r.failure(current); failure != "" {
		return r.fail(current, failure)
	}
	if current.State != release.Promoting && current.Rules != r.rules() {
		return r.check(current)
	}
	if rest := current.Since.Add(r.pause(current)).Sub(r.Now); rest > 0 {
		return Decision{Action: Rest, After: rest}
	}
	if again, isNeeded := r.again(current); isNeeded {
		return r.expose(again)
	}
	if r.isDisrupted(current) {
		return r.wait(current, "each pod that has the edit is evicted, or its node is lost")
	}
	if rest := r.restarting(current); rest > 0 {
		return Decision{Action: Rest, After: rest}
	}
	if d, isNeeded := r.prove(current); isNeeded {
		return d
	}
	if d, isNeeded := r.read(current); isNeeded {
		return d
	}
	return r.next(current)
}

// again returns the exposure of the current step, if none of the pods has the candidate any more
// that had it: they were replaced, or are disrupted.
func (r run) again(current release.Exposure) (again release.Exposure, isNeeded bool) {
	if current.Step < 1 || current.Step > len(r.Settings.Steps) {
		return current, false
	}
	if r.isShown(current) {
		return current, false
	}
	again = r.share(current, r.Settings.Steps[current.Step-1])
	again.State, again.Since, again.Reason = release.Progressing, r.Now, ""
	return again, r.isShown(again)
}

// isShown reports whether a pod that runs has the candidate.
func (r run) isShown(e release.Exposure) bool {
	return slices.ContainsFunc(r.Pods, func(p Pod) bool { return p.runs() && r.hasCandidate(e, p) })
}

// current returns how far the release of the candidates has come. It is not under way if an object
// has a candidate that nobody has looked at. A release that has ended stays so, also if an
// object has another resource version since: only another content is a newer edit.
func (r run) current() (furthest release.Exposure, isUnderWay bool) {
	for _, o := range r.changed {
		e := o.Exposure
		switch {
		case e.Digest == o.Candidate && maps.Equal(e.With, r.with):
		case r.isBehind(o):
			continue
		case e.Digest != o.Candidate, !e.State.IsFinal():
			return release.Exposure{}, false
		}
		if e.State == release.Refused && e.Rules != r.rules() {
			return release.Exposure{}, false
		}
		if !isUnderWay || compare(e, furthest) > 0 {
			furthest, isUnderWay = e, true
		}
	}
	return furthest, isUnderWay
}

// compare compares how far a release has come: the newest exposure is the furthest, but what only a
// person does or ends is further than every step.
func compare(a, b release.Exposure) int {
	return cmp.Or(cmp.Compare(rank(a), rank(b)), a.Since.Compare(b.Since), cmp.Compare(a.Step, b.Step))
}

func rank(e release.Exposure) int {
	if e.State.IsFinal() || e.State == release.Promoting {
		return 1
	}
	return 0
}

// rules stands for the annotations of the candidates.
func (r run) rules() string {
	all := map[string][]byte{}
	for _, o := range r.changed {
		all[o.Name] = []byte(o.Rules)
	}
	const enough = 16
	return release.Digest(all)[:enough]
}

// begin begins with candidates that nobody has looked at.
func (r run) begin() Decision {
	if len(r.Objects) > 1 {
		for _, o := range r.changed {
			if rest := o.ChangedAt.Add(r.Quiet).Sub(r.Now); rest > 0 {
				return Decision{Action: Rest, After: rest}
			}
		}
	}
	d := r.next(release.Exposure{With: r.with, Rules: r.rules()})
	if d.Action == Expose && r.Settings.Check != settings.CheckNone && r.mayBeOld() {
		return Decision{Action: Read}
	}
	if d.Action == Promote {
		d.Exposure = release.Exposure{With: r.with, Rules: r.rules()}
	}
	d.Action = Check
	return d
}

// check checks candidates again that some pods have: the rules have changed.
func (r run) check(current release.Exposure) Decision {
	current.Digest, current.Rules = "", r.rules()
	return Decision{Action: Check, Names: r.names(), Exposure: current}
}
