package plan

import (
	"maps"
	"slices"

	"github.com/liveconfig-csi/liveconfig/pkg/release"
)

// withOf returns the candidates that are shown together. Those that were promoted a moment ago,
// while others were not yet, are still among them.
func withOf(u Unit, changed []Object) map[string]string {
	if u.Settings.Group == "" {
		return nil
	}
	with := map[string]string{}
	for _, o := range changed {
		with[o.Name] = o.Version
	}
	for _, o := range changed {
		if o.Exposure.Digest != o.Candidate || o.Exposure.With[o.Name] != o.Version {
			continue
		}
		for name, version := range o.Exposure.With {
			if u.isPromoted(name, o.Exposure) {
				with[name] = version
			}
		}
	}
	if len(with) < 2 {
		return nil
	}
	return with
}

// isPromoted reports whether an object was promoted by the release that an exposure is of.
func (u Unit) isPromoted(name string, e release.Exposure) bool {
	return slices.ContainsFunc(u.Objects, func(o Object) bool { return o.Name == name && !o.isChanged() && o.Together == e.Together() })
}

// isByPerson reports whether a person has ended the release of one object: the plugin does not know
// of its group.
func isByPerson(e release.Exposure, o Object) bool {
	return e.Digest == o.Candidate && e.State.IsFinal() && len(e.With) == 0
}

// isSpreading reports whether another object of the group has an exposure by which the candidate of
// this one is shown together with its own: then this one is a write behind.
func (r run) isSpreading(o Object) bool {
	return slices.ContainsFunc(r.changed, func(other Object) bool {
		e := other.Exposure
		return other.Name != o.Name && e.Digest == other.Candidate && len(e.With) > 0 && maps.Equal(e.With, r.with)
	})
}

// isSpread reports whether all objects have the exposure.
func (r run) isSpread(e release.Exposure) bool {
	for _, o := range r.changed {
		other := o.Exposure
		if other.Digest != o.Candidate || other.Step != e.Step || other.State != e.State || other.Threshold != e.Threshold || !slices.Equal(other.Pods, e.Pods) {
			return false
		}
	}
	return true
}

// isPartlyPromoted reports whether an object that is shown together with these has been promoted.
func (r run) isPartlyPromoted() bool { return len(r.with) > len(r.changed) }
