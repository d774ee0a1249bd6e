package volume

import (
	"errors"
	"fmt"
	"maps"

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
		case !s.Found || isFollowed == isReleased(s.Content):
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

func isReleased(c api.Content) bool { return c.Release != nil && c.Release.IsReleased }

// contentLocked returns the content of a source for the pods of a projection: for a released
// source, the candidate or what its stable copy has. The error means that the files stay as they
// are.
func (pl planner) contentLocked(p *projection, key source.Key, content api.Content) (api.Content, *unreadError) {
	if !isReleased(content) {
		return content, nil
	}
	c, isFollowed := p.copies[key]
	if !isFollowed {
		return content, &unreadError{key: source.Key{Identity: key.Identity, Ref: release.StableOf(key.Ref)}}
	}
	s := pl.sources.Get(c.key)
	switch evidenceOf(c.key, s).EffectOn(access.Use{IsLive: p.isLive()}) {
	case access.Serve:
	case access.Await:
		return content, &unreadError{key: c.key}
	case access.Refuse, access.Remove:
		return content, &unreadError{key: c.key, err: s.Err}
	}
	switch {
	case !s.Found && c.wasFound:
		return content, &unreadError{key: c.key, err: errCopyGone}
	case !s.Found:
		return content, nil
	case s.Content.Release == nil || s.Content.Release.StableOf != release.LabelOf(key.Ref.Name):
		return content, &unreadError{key: c.key, err: &notCopyError{name: key.Ref.Name}}
	}
	if pl.showsCandidateLocked(p, key, content) {
		return content, nil
	}
	stable := s.Content
	stable.Ref = content.Ref
	return stable, nil
}

// showsCandidateLocked reports whether the pods get what a source has now. All pods that share the
// files must be exposed. Candidates that are shown together are shown together or not at all.
func (pl planner) showsCandidateLocked(p *projection, key source.Key, content api.Content) bool {
	e := pl.exposureLocked(p, key)
	if !isShownToAllLocked(p, e, content.Release.Digest) {
		return false
	}
	for _, other := range p.keys {
		_, isTogether := e.With[release.NameOf(other.Ref)]
		if !isTogether || other == key || other.Ref.Namespace != key.Ref.Namespace {
			continue
		}
		c, isFollowed := p.copies[other]
		if !isFollowed {
			return false
		}
		stable, candidate := pl.sources.Get(c.key).Content.Release, pl.sources.Get(other).Content.Release
		isPromoted := stable != nil && (stable.Together == e.Together() ||
			release.ParsePartners(stable.Partners).IsPromotedWith(release.NameOf(key.Ref), e))
		beside := pl.exposureLocked(p, other)
		isShown := candidate != nil && maps.Equal(beside.With, e.With) && isShownToAllLocked(p, beside, candidate.Digest)
		if !isPromoted && !isShown {
			return false
		}
	}
	return true
}

// releaseLocked returns what a volume shows of a released source; nil for another source.
func (d *describer) releaseLocked(p *projection, ref api.Ref) *statusz.Release {
	for key, c := range p.copies {
		content, stable := d.planner.sources.Get(key).Content, d.planner.sources.Get(c.key)
		if key.Ref != ref || !stable.Found || !isReleased(content) {
			continue
		}
		r := &statusz.Release{Stable: versionOf(stable.Content), State: string(d.planner.exposureLocked(p, key).State)}
		r.IsShown = stable.Content.Release != nil && content.Release.Digest == stable.Content.Release.Digest || d.planner.showsCandidateLocked(p, key, content)
		return r
	}
	return nil
}

// exposureLocked returns who is shown the candidate of a source. An exposure that cannot be read
// shows it to nobody.
func (pl planner) exposureLocked(p *projection, key source.Key) release.Exposure {
	c, isFollowed := p.copies[key]
	if !isFollowed {
		return release.Exposure{}
	}
	s := pl.sources.Get(c.key)
	if !s.Found || s.Content.Release == nil || s.Content.Release.StableOf != release.LabelOf(key.Ref.Name) {
		return release.Exposure{}
	}
	e, err := release.ParseExposure(s.Content.Release.Exposure)
	if err != nil {
		return release.Exposure{}
	}
	return e
}

func isShownToAllLocked(p *projection, e release.Exposure, digest string) bool {
	for _, v := range p.volumes {
		if !e.Shows(v.record.Pod.UID, digest) {
			return false
		}
	}
	return true
}

// errCopyGone is why a volume waits that has had the content of a stable copy.
var errCopyGone = errors.New("it was deleted; the controller creates it again")

// notCopyError is about an object with the name of a stable copy that is not one.
type notCopyError struct{ name string }

func (e *notCopyError) Error() string {
	return fmt.Sprintf("it has the name of the stable copy of %s, but not the label %s: %s; rename or delete it",
		e.name, release.StableLabel, release.LabelOf(e.name))
}
