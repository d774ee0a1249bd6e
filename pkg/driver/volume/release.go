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
	release  func()     // Gives the copy back.
	wasFound bool       // The copy exists, or did: its absence is a problem from then on.
}

// follower has projections use the stable copies of their released sources, as long as these are
// released.
type follower struct {
	sources  Sources
	registry *registry
}

// followLocked begins to use the copies of the sources that are released now, and ends the use of
// others. A source that is gone may come back as a released one.
func (f follower) followLocked(p *projection) error {
	for _, key := range p.keys {
		s := f.sources.Get(key)
		c, isFollowed := p.copies[key]
		switch {
		case !s.Found || isFollowed == isReleased(s):
		case isFollowed:
			f.registry.removeCopyLocked(p, key, c)
			c.release()
		default:
			if err := f.beginLocked(p, key); err != nil {
				return err
			}
		}
	}
	return nil
}

func (f follower) beginLocked(p *projection, key source.Key) (err error) {
	c := &stableCopy{key: source.Key{Identity: key.Identity, Ref: release.StableOf(key.Ref)}}
	f.registry.addCopyLocked(p, key, c) // First, so that no change is missed.
	if c.release, err = f.sources.Acquire(c.key); err != nil {
		f.registry.removeCopyLocked(p, key, c)
	}
	return err
}

// noteFoundLocked stores which copies the files may have come from.
func (f follower) noteFoundLocked(p *projection) {
	for _, c := range p.copies {
		c.wasFound = c.wasFound || f.sources.Get(c.key).Found
	}
}

func isReleased(s source.Snapshot) bool { return s.Release != nil && s.Release.IsReleased }

// releases are the released sources of a projection at one moment. Many objects may be released
// together, so each question about one of them is answered once.
type releases struct {
	volumes []*volume
	isLive  bool
	sources map[api.Ref]struct{} // Of the projection, released or not.
	of      map[api.Ref]*released
}

// released is a source with its stable copy, at one moment.
type released struct {
	copy        *stableCopy
	now, stable source.Snapshot
	// marks are those of a stable copy that can be used; else they are the zero Marks.
	marks release.Marks
	// isShownToAll and isShown are nil until they are known.
	isShownToAll, isShown *bool
}

// releasesLocked returns the sources of a projection that are or were released.
func (pl planner) releasesLocked(p *projection) releases {
	rs := releases{volumes: p.volumes, isLive: p.isLive()}
	if len(p.copies) == 0 {
		return rs
	}
	rs.sources, rs.of = make(map[api.Ref]struct{}, len(p.keys)), make(map[api.Ref]*released, len(p.copies))
	for _, key := range p.keys {
		rs.sources[key.Ref] = struct{}{}
	}
	for key, c := range p.copies {
		r := &released{copy: c, now: pl.sources.Get(key), stable: pl.sources.Get(c.key)}
		if r.stable.Found && isCopyOf(r.stable.Release, key.Ref) && r.stable.Release.Err == nil {
			r.marks = *r.stable.Release
		}
		rs.of[key.Ref] = r
	}
	return rs
}

// snapshot returns what is known of a source, at the moment of its copy if it has one.
func (pl planner) snapshot(rs releases, key source.Key) source.Snapshot {
	if r, isFollowed := rs.of[key.Ref]; isFollowed {
		return r.now
	}
	return pl.sources.Get(key)
}

func isCopyOf(m *release.Marks, ref api.Ref) bool {
	return m != nil && m.StableOf == release.LabelOf(ref.Name)
}

// content returns the content of a source, which is found, for the pods of the projection: for a
// released source, the candidate or what its stable copy has. The error means that the files stay
// as they are.
func (rs releases) content(key source.Key, s source.Snapshot) (api.Content, *unreadError) {
	if !isReleased(s) {
		return s.Content, nil
	}
	r, isFollowed := rs.of[key.Ref]
	if !isFollowed {
		return s.Content, &unreadError{key: source.Key{Identity: key.Identity, Ref: release.StableOf(key.Ref)}}
	}
	switch evidenceOf(r.copy.key, r.stable).EffectOn(access.Use{IsLive: rs.isLive}) {
	case access.Serve:
	case access.Await:
		return s.Content, &unreadError{key: r.copy.key}
	case access.Refuse, access.Remove:
		return s.Content, &unreadError{key: r.copy.key, err: r.stable.Err}
	}
	switch m := r.stable.Release; {
	case !r.stable.Found && r.copy.wasFound:
		return s.Content, &unreadError{key: r.copy.key, err: errCopyGone}
	case !r.stable.Found:
		return s.Content, nil
	case !isCopyOf(m, key.Ref):
		return s.Content, &unreadError{key: r.copy.key, err: &notCopyError{name: key.Ref.Name}}
	case m.Err != nil:
		return s.Content, &unreadError{key: r.copy.key, err: m.Err}
	}
	if rs.shows(key.Ref) {
		return s.Content, nil
	}
	stable := r.stable.Content
	stable.Ref = s.Content.Ref
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
	if !isFollowed || !r.stable.Found || !isReleased(r.now) {
		return nil
	}
	isPromoted := r.stable.Release != nil && r.now.Release.Digest == r.stable.Release.Digest
	return &statusz.Release{
		Stable: versionOf(r.stable.Content), State: string(r.marks.Audience.State()), IsShown: isPromoted || rs.shows(ref),
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
