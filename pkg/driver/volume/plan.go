package volume

import (
	"slices"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/access"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/source"
	"github.com/liveconfig-csi/liveconfig/pkg/files/atomicdir"
	plans "github.com/liveconfig-csi/liveconfig/pkg/files/projection"
)

// planner finds out what the files of a volume must be, by what is known of its sources now.
type planner struct{ sources Sources }

// planLocked returns the files that the sources ask for, before anything is rendered, and the
// objects that they come from. The error names everything that is in the way. p.mu is held, unless
// the volume is being published.
func (pl planner) planLocked(p *projection) (plans.Plan, map[api.Ref]api.Content, error) {
	rs := pl.releasesLocked(p)
	if early := pl.awaitPartnersLocked(p, rs); early != nil {
		return plans.Plan{}, nil, early
	}
	spec := p.spec
	contents := make(map[api.Ref]api.Content, len(p.keys))
	var unread []*unreadError
	for _, key := range p.keys {
		s := pl.snapshot(rs, key)
		switch evidenceOf(key, s).EffectOn(access.Use{IsLive: p.isLive(), FollowsLoss: p.followsLossLocked()}) {
		case access.Remove:
			spec.Sources = forgive(spec.Sources, key.Ref)
			continue
		case access.Await:
			unread = append(unread, &unreadError{key: key})
			continue
		case access.Refuse:
			unread = append(unread, &unreadError{key: key, err: s.Err})
			spec.Sources = forgive(spec.Sources, key.Ref) // It is not known to be missing.
			continue
		case access.Serve:
		}
		switch {
		case s.Found:
			content, problem := rs.content(key, s)
			if problem != nil {
				unread = append(unread, problem)
				spec.Sources = forgive(spec.Sources, key.Ref)
				continue
			}
			contents[key.Ref] = content
		case p.isAbsenceEarlyLocked(key.Ref, s): // The volume changes as a whole, so all of it waits.
			return plans.Plan{}, nil, &atomicdir.EarlyError{Until: s.Changed.Add(source.AbsenceTime)}
		case p.followsLossLocked():
			spec.Sources = forgive(spec.Sources, key.Ref)
		}
	}
	plan, err := plans.Prepare(spec, p.group, contents)
	if len(unread) > 0 {
		return plans.Plan{}, nil, newSourcesError(unread, err)
	}
	return plan, contents, err
}

// removesFilesLocked reports whether files of the volume must go because their source may no longer
// be read.
func (pl planner) removesFilesLocked(p *projection) bool {
	return p.followsLossLocked() && len(pl.lostLocked(p)) > 0
}

// stalenessLocked returns why what is known of a source may be out of date.
func (pl planner) stalenessLocked(p *projection) error {
	if p.frozen {
		return nil
	}
	return pl.firstUnreadLocked(p, func(err error) bool { return err != nil })
}

// noRoomLocked returns an error when there is no room for what a source of the volume has become.
func (pl planner) noRoomLocked(p *projection) error { return pl.firstUnreadLocked(p, isExhausted) }

// firstUnreadLocked returns an error for the first source whose error matches.
func (pl planner) firstUnreadLocked(p *projection, match func(error) bool) error {
	for _, key := range p.keys {
		if s := pl.sources.Get(key); match(s.Err) {
			return &unreadError{key: key, err: s.Err}
		}
		if c, isFollowed := p.copies[key]; isFollowed {
			if s := pl.sources.Get(c.key); match(s.Err) {
				return &unreadError{key: c.key, err: s.Err}
			}
		}
	}
	return nil
}

// polledLocked returns the sources of the volume that are polled.
func (pl planner) polledLocked(p *projection) (polled []source.Key) {
	for _, key := range p.keys {
		if pl.sources.Get(key).Polled {
			polled = append(polled, key)
		}
	}
	return polled
}

// isFirstRead reports that the API server has not answered yet for a source, so it is too early to
// report a problem.
func isFirstRead(err error) bool {
	sources, ok := asSources(err)
	return ok && slices.ContainsFunc(sources.unread, func(u *unreadError) bool { return u.err == nil })
}

// isReadByPod reports whether a source is read with the pod's own credentials.
func isReadByPod(key source.Key) bool {
	return key.Identity != access.Driver() && !key.Identity.ByDriver
}
