package volume

import (
	"slices"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/access"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/source"
	"github.com/liveconfig-csi/liveconfig/pkg/files/atomicdir"
	"github.com/liveconfig-csi/liveconfig/pkg/files/projection"
)

// planner finds out what the files of a volume must be, by what is known of its sources now.
type planner struct{ sources Sources }

// plan returns the files that the sources ask for, before anything is rendered, and the objects
// that they come from. The error names everything that is in the way. v.mu is held, unless the
// volume is being published.
func (p planner) plan(v *volume) (projection.Plan, map[api.Ref]api.Content, error) {
	spec := v.spec
	contents := make(map[api.Ref]api.Content, len(v.keys))
	var unread []*unreadError
	for _, key := range v.keys {
		s := p.sources.Get(key)
		switch evidenceOf(key, s).EffectOn(access.Use{IsLive: v.isLive(), FollowsLoss: v.followsLossLocked()}) {
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
			contents[key.Ref] = s.Content
		case v.isAbsenceEarlyLocked(key.Ref, s): // The volume changes as a whole, so all of it waits.
			return projection.Plan{}, nil, &atomicdir.EarlyError{Until: s.Changed.Add(source.AbsenceTime)}
		case v.followsLossLocked():
			spec.Sources = forgive(spec.Sources, key.Ref)
		}
	}
	plan, err := projection.Prepare(spec, v.record.FSGroup, contents)
	if len(unread) > 0 {
		return projection.Plan{}, nil, newSourcesError(unread, err)
	}
	return plan, contents, err
}

// removesFiles reports whether files of the volume must go because their source may no longer be
// read.
func (p planner) removesFiles(v *volume) bool { return v.followsLossLocked() && len(p.lost(v)) > 0 }

// stalenessLocked returns why what is known of a source may be out of date.
func (p planner) stalenessLocked(v *volume) error {
	if v.frozen {
		return nil
	}
	return p.firstUnread(v, func(err error) bool { return err != nil })
}

// crowdedOut returns an error when there is no room for what a source of the volume has become.
func (p planner) crowdedOut(v *volume) error { return p.firstUnread(v, isExhausted) }

// firstUnread returns an error for the first source whose error matches.
func (p planner) firstUnread(v *volume, match func(error) bool) error {
	for _, key := range v.keys {
		if s := p.sources.Get(key); match(s.Err) {
			return &unreadError{key: key, err: s.Err}
		}
	}
	return nil
}

// polled returns the sources of the volume that are polled.
func (p planner) polled(v *volume) (polled []source.Key) {
	for _, key := range v.keys {
		if p.sources.Get(key).Polled {
			polled = append(polled, key)
		}
	}
	return polled
}

// isFirstRead reports that the API server has not answered yet for a source, so it is too early to
// say what is wrong.
func isFirstRead(err error) bool {
	sources, ok := asSources(err)
	return ok && slices.ContainsFunc(sources.unread, func(u *unreadError) bool { return u.err == nil })
}

// isReadByPod reports whether a source is read with the pod's own credentials.
func isReadByPod(key source.Key) bool {
	return key.Identity != access.Driver() && !key.Identity.ByDriver
}
