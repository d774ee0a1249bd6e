package plan

import (
	"maps"
	"slices"

	"github.com/liveconfig-csi/liveconfig/pkg/release"
)

// withOf returns the candidates that are shown together: those of the release that is under way, or
// what a new one names. It is nil for an object without a group.
func withOf(u Unit, changed []Object) map[string]string {
	if u.Settings.Group == "" {
		return nil
	}
	var newest release.Exposure
	for _, o := range changed {
		e := o.Exposure
		if e.Digest == o.Candidate && isWith(e.With, changed) && (newest.With == nil || e.Since.After(newest.Since)) {
			newest = e
		}
	}
	if newest.With != nil {
		return newest.With
	}
	with := map[string]string{}
	for _, o := range changed {
		with[o.Name] = o.Version
	}
	return with
}

// isWith reports whether candidates are those that an exposure names. Another resource version does
// not matter if the content is the one that the object's own exposure is about.
func isWith(with map[string]string, changed []Object) bool {
	return len(with) == len(changed) && !slices.ContainsFunc(changed, func(o Object) bool {
		version, isNamed := with[o.Name]
		return !isNamed || version != o.Version && o.Exposure.Digest != o.Candidate
	})
}

// halfPromoted returns the objects that must be promoted because others were by the same release:
// those cannot be taken back, and no pod may have half of a group.
func (r run) halfPromoted() (names []string) {
	for _, o := range r.changed {
		e := o.Exposure
		isOfOther := func(other Object) bool {
			_, isNamed := e.With[other.Name]
			return isNamed && other.Name != o.Name && other.Together == e.Together()
		}
		if e.Digest == o.Candidate && !e.State.IsFinal() && slices.ContainsFunc(r.Objects, isOfOther) {
			names = append(names, o.Name)
		}
	}
	return names
}

// isBehind reports whether the exposure of another object of the group names the candidate of this
// one, while this one has an older exposure, or none. An exposure that a person has ended is not
// older.
func (r run) isBehind(o Object) bool {
	isEnded := o.Exposure.Digest == o.Candidate && o.Exposure.State.IsFinal()
	return slices.ContainsFunc(r.changed, func(other Object) bool {
		e := other.Exposure
		if other.Name == o.Name || e.Digest != other.Candidate || len(e.With) == 0 || !maps.Equal(e.With, r.with) {
			return false
		}
		return !isEnded || len(o.Exposure.With) > 0 && e.Since.After(o.Exposure.Since)
	})
}

// isSpread reports whether all objects have the exposure.
func (r run) isSpread(e release.Exposure) bool { return len(r.lacking(e)) == 0 }

// lacking returns the objects that do not have the exposure.
func (r run) lacking(e release.Exposure) (names []string) {
	for _, o := range r.changed {
		other := o.Exposure
		isSame := other.Digest == o.Candidate && other.State == e.State && other.Step == e.Step && other.Rules == e.Rules &&
			other.Threshold == e.Threshold && slices.Equal(other.Pods, e.Pods) && maps.Equal(other.With, e.With)
		if !isSame {
			names = append(names, o.Name)
		}
	}
	return names
}
