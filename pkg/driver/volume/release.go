package volume

import (
	"errors"
	"fmt"
	"slices"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/api/statusz"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/access"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/source"
	"github.com/liveconfig-csi/liveconfig/pkg/release"
)

// stableCopy is the stable copy of a released source, as one projection uses it.
type stableCopy struct {
	key      source.Key // The identity is that of the source.
	giveBack func()     // Gives the copy back.
	wasFound bool       // The copy exists, or did: its absence is a problem from then on.
}

// follow begins to use the copies of the sources that are released now, and ends the use of others.
// A source that is gone may come back as a released one. It returns a look at what is used then.
func (h held) follow() (look, error) {
	for {
		l := h.look()
		isOther, err := h.adaptCopies(l)
		if err != nil || !isOther {
			return l, err
		}
	}
}

// adaptCopies uses the copies of the sources that a look shows as released, and no others. It
// reports whether these are others than those in the look. Several sources can have one object, and
// what is known of them can differ: it is released if one of them shows it so.
func (h held) adaptCopies(l look) (isOther bool, err error) {
	isOther = h.dropCopies(l)
	released := map[source.Key]bool{}
	for s := range l.sources() {
		if s.now.Found && isReleased(s.now) {
			released[s.key] = true
		}
	}
	for s := range l.sources() {
		switch isFollowed := s.copy != nil; {
		case !s.now.Found || isFollowed == released[s.key]:
		case !isFollowed && h.copies[s.key] != nil: // Another source has begun it.
		case isFollowed:
			isOther = true
			h.node.registry.removeCopy(h, s.key, s.copy)
			s.copy.giveBack()
		default:
			isOther = true
			if err := h.beginCopy(s.key); err != nil {
				return true, err
			}
		}
	}
	return isOther, nil
}

// dropCopies ends the use of the copies whose objects have left their selections.
func (h held) dropCopies(l look) (isOther bool) {
	for key, c := range h.copies {
		isSource := slices.Contains(h.keys, key)
		_, isMember := l.memberAt[key]
		if !isSource && !isMember {
			isOther = true
			h.node.registry.removeCopy(h, key, c)
			c.giveBack()
		}
	}
	return isOther
}

func (h held) beginCopy(key source.Key) (err error) {
	c := &stableCopy{key: source.Key{Identity: key.Identity, Ref: release.StableOf(key.Ref)}}
	h.node.registry.addCopy(h, key, c) // First, so that no change is missed.
	if c.giveBack, err = h.node.sources.Acquire(c.key); err != nil {
		h.node.registry.removeCopy(h, key, c)
	}
	return err
}

// noteCopies stores which copies the files may have come from.
func (h held) noteCopies(l look) {
	for s := range l.sources() {
		if s.copy != nil {
			s.copy.wasFound = s.copy.wasFound || s.then.Found
		}
	}
}

func isReleased(s source.Snapshot) bool { return s.Release != nil && s.Release.IsReleased }

// releases are the released sources in a look. Many objects may be released together, so each
// question about one of them is answered once.
type releases struct {
	volumes []*volume
	sources map[api.Ref]struct{} // Of the projection, released or not.
	of      map[api.Ref]*released
}

// released is a source with its stable copy.
type released struct {
	seen
	// marks are those of a stable copy that can be used; else they are the zero Marks.
	marks release.Marks
	// isShownToAll and isShown are nil until they are known.
	isShownToAll, isShown *bool
}

// releases returns the sources that are or were released.
func (l look) releases() releases {
	if l.copies == nil && len(l.members) == 0 {
		return releases{}
	}
	rs := releases{volumes: l.volumes, sources: make(map[api.Ref]struct{}, len(l.keys)), of: map[api.Ref]*released{}}
	for s := range l.sources() {
		rs.sources[s.key.Ref] = struct{}{}
		if s.copy == nil {
			continue
		}
		r := &released{seen: s}
		if s.then.Found && isCopyOf(s.then.Release, s.key.Ref) && s.then.Release.Err == nil {
			r.marks = *s.then.Release
		}
		rs.of[s.key.Ref] = r
	}
	return rs
}

func isCopyOf(m *release.Marks, ref api.Ref) bool {
	return m != nil && m.StableOf == release.LabelOf(ref.Name)
}

// content returns the content of a source, which is found, for the pods of the projection: for a
// released source, the candidate or what its stable copy has. The error means that the files stay
// as they are.
func (l look) content(s seen, rs releases) (api.Content, *unreadError) {
	candidate := s.now.Content
	switch {
	case !isReleased(s.now):
		return candidate, nil
	case s.copy == nil:
		return candidate, &unreadError{key: source.Key{Identity: s.key.Identity, Ref: release.StableOf(s.key.Ref)}}
	}
	switch evidenceOf(s.copy.key, s.then).EffectOn(access.Use{IsLive: l.isLive}) {
	case access.Serve:
	case access.Await:
		return candidate, &unreadError{key: s.copy.key}
	case access.Refuse, access.Remove:
		return candidate, &unreadError{key: s.copy.key, err: s.then.Err}
	}
	switch m := s.then.Release; {
	case !s.then.Found && s.copy.wasFound:
		return candidate, &unreadError{key: s.copy.key, err: errCopyGone}
	case !s.then.Found:
		return candidate, nil
	case !isCopyOf(m, s.key.Ref):
		return candidate, &unreadError{key: s.copy.key, err: &notCopyError{name: s.key.Ref.Name}}
	case m.Err != nil:
		return candidate, &unreadError{key: s.copy.key, err: m.Err}
	}
	if problem := l.deniedPartner(s); problem != nil {
		return candidate, problem
	}
	if rs.shows(s.key.Ref) {
		return candidate, nil
	}
	stable := s.then.Content
	stable.Ref = candidate.Ref
	return stable, nil
}

// shows reports whether the pods get what a source has now. All pods that share the files must be
// exposed. Candidates that are shown together are shown together or not at all.
func (rs releases) shows(ref api.Ref) bool {
	r := rs.of[ref]
	if r.isShown == nil {
		shown := rs.decide(ref, r)
		r.isShown = &shown
	}
	return *r.isShown
}

func (rs releases) decide(ref api.Ref, r *released) bool {
	if !rs.showsToAll(r) {
		return false
	}
	a := r.marks.Audience
	for name := range a.With() {
		other, isOther := release.RefOf(ref.Namespace, name)
		if _, isSource := rs.sources[other]; !isOther || other == ref || !isSource {
			continue
		}
		beside, isFollowed := rs.of[other]
		if !isFollowed {
			return false
		}
		isPromoted := beside.marks.StableOf != "" && (beside.marks.Together == a.Together() ||
			beside.marks.Partners.IsPromotedWith(release.NameOf(ref), a))
		isShown := beside.marks.Audience.Together() == a.Together() && rs.showsToAll(beside)
		if !isPromoted && !isShown {
			return false
		}
	}
	return true
}

// showsToAll reports whether the candidate of a source is shown to every pod of the projection.
func (rs releases) showsToAll(r *released) bool {
	if r.isShownToAll == nil {
		isHidden := func(v *volume) bool { return !r.marks.Audience.Shows(v.record.Pod.UID, r.now.Release.Digest) }
		shown := isReleased(r.now) && !slices.ContainsFunc(rs.volumes, isHidden)
		r.isShownToAll = &shown
	}
	return *r.isShownToAll
}

// status returns what a volume shows of a released source; nil for another source.
func (rs releases) status(ref api.Ref) *statusz.Release {
	r, isFollowed := rs.of[ref]
	if !isFollowed || !r.then.Found || !isReleased(r.now) {
		return nil
	}
	isPromoted := r.then.Release != nil && r.now.Release.Digest == r.then.Release.Digest
	return &statusz.Release{
		Stable: versionOf(r.then.Content), State: string(r.marks.Audience.State()), IsShown: isPromoted || rs.shows(ref),
	}
}

// errCopyGone is why a volume waits that has had the content of a stable copy.
var errCopyGone = errors.New("it was deleted; the controller creates it again")

// notCopyError is about an object with the name of a stable copy that is not one.
type notCopyError struct{ name string }

func (e *notCopyError) Error() string {
	return fmt.Sprintf("it has the name of the stable copy of %s, but not the label %s: %s; rename or delete it",
		e.name, release.StableLabel, release.LabelOf(e.name))
}
