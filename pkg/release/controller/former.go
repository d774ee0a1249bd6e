package controller

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/daemon/logkeys"
	"github.com/liveconfig-csi/liveconfig/pkg/release"
	"github.com/liveconfig-csi/liveconfig/pkg/release/stable"
)

// unkeptTime is how long it takes until the controller tries again to keep a content, if the API
// server has refused that.
const unkeptTime = time.Minute

// unkept are the objects whose contents the API server refuses to keep, and since when.
type unkept struct {
	mu    sync.Mutex // Guards since.
	since map[api.Ref]time.Time
}

func (u *unkept) note(o api.Ref, now time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.since[o] = now
}

// rests reports whether it is too early to try again.
func (u *unkept) rests(o api.Ref, now time.Time) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	since, isNoted := u.since[o]
	if isNoted && now.Sub(since) >= unkeptTime {
		delete(u.since, o)
		return false
	}
	return isNoted
}

func (u *unkept) forget(o api.Ref) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.since, o)
}

// remember keeps the stable contents of members, and how edits ended, where it survives the stable
// copies. A refusal of the API server stops no release.
func (c *Controller) remember(ctx context.Context, members []*member) error {
	for _, m := range members {
		if c.cfg.DryRun || c.unkept.rests(m.ref(), time.Now()) {
			continue
		}
		err := c.rememberOne(ctx, m)
		switch {
		case err == nil:
			c.reports.replace(m.ref(), ReasonNotKept, "")
		case isRefusal(err):
			c.unkept.note(m.ref(), time.Now())
			c.reportNotKept(ctx, m, err)
		default:
			return err
		}
	}
	return nil
}

// errForeign is why nothing is kept: an object has the name already.
var errForeign = errors.New("another object has the name")

// isRefusal reports whether the API server, or an object of somebody, is against what was asked. It
// would be so again.
func isRefusal(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsRequestEntityTooLargeError(err) ||
		errors.Is(err, errForeign)
}

func (c *Controller) rememberOne(ctx context.Context, m *member) error {
	now, err := c.former(ctx, m)
	if err != nil {
		return err
	}
	f, e := now.Former(), m.copy.Exposure()
	newest, _ := f.Newest()
	var end *release.Entry
	if _, isKnown := f.EndOf(e.Digest); e.State.IsFinal() && !isKnown {
		end = &release.Entry{Digest: e.Digest, Outcome: string(e.State), At: e.Since, Reason: e.Reason}
	}
	if newest.Digest == m.copy.Digest && end == nil {
		return nil
	}
	content, err := c.read(ctx, m.copy.Ref)
	if err != nil {
		return err
	}
	if content.Version != m.copy.Version {
		return conflict(m.copy.Ref)
	}
	return c.keep(ctx, m, content, end)
}

// former returns what is known of the object that keeps the former contents of a member; one
// without a version does not exist.
func (c *Controller) former(ctx context.Context, m *member) (stable.Object, error) {
	now, err := c.current(ctx, release.FormerOf(m.ref()))
	switch {
	case err != nil:
		return stable.Object{}, err
	case now == nil:
		return stable.NewFormer(m.ref()), nil
	case !now.IsFormerOf(m.ref()):
		return stable.Object{}, fmt.Errorf("%s: %w, but not the label %s: %s; rename or delete it", now.Ref, errForeign,
			release.FormerLabel, release.LabelOf(m.ref().Name))
	}
	return *now, nil
}

// keep keeps a stable content and, if it is not nil, how an edit ended.
func (c *Controller) keep(ctx context.Context, m *member, content stable.Object, end *release.Entry) error {
	former, err := c.former(ctx, m)
	if err != nil {
		return err
	}
	if former.Version != "" { // With its contents.
		if former, err = c.read(ctx, former.Ref); err != nil {
			return err
		}
	}
	if newest, _ := former.Former().Newest(); newest.Digest != content.Digest {
		if former, err = former.Keep(content, time.Now()); err != nil {
			return err
		}
	}
	if end != nil {
		former = former.WithFormer(former.Former().WithEnd(*end))
	}
	c.requests.Spend(m.ref().Namespace)
	written, err := c.writer.Keep(ctx, former)
	if err != nil {
		return err
	}
	c.known.set(written)
	return nil
}

// restored returns the content that the copy of a member had when it was last seen, with the
// annotations that keep an edit from its pods that was refused or taken back; candidate for a
// member whose former contents are not kept. These may be a write behind: then the copies of others
// of a group show it.
func (c *Controller) restored(
	ctx context.Context, m *member, candidate stable.Object, members []*member,
) (stable.Object, map[string]string, error) {
	if e, isPromoted := promotion(m, members); isPromoted {
		e.Digest = candidate.Digest
		return candidate, stable.AnnotatePromoted(stable.Annotate(nil, e), candidate.Digest, time.Now(), ""), nil
	}
	former, err := c.read(ctx, release.FormerOf(m.ref()))
	if apierrors.IsNotFound(err) || err == nil && !former.IsFormerOf(m.ref()) {
		return candidate, nil, nil
	}
	if err != nil {
		return candidate, nil, err
	}
	f := former.Former()
	end, isEnded := f.EndOf(candidate.Digest)
	if undone, isUndone := undoing(m, members); isUndone {
		end, isEnded = undone, true
		end.Digest = candidate.Digest
	}
	newest, isKnown := f.Newest()
	if isEnded && newest.Digest == candidate.Digest {
		newest, isKnown = f.WithEnd(end).Before(candidate.Digest)
	}
	if !isKnown {
		return candidate, nil, nil
	}
	content, err := former.Kept(newest, candidate)
	if err != nil {
		klog.FromContext(ctx).Error(err, "The stable copy is made from what the object has", logkeys.Ref, m.ref())
		return candidate, nil, nil
	}
	if !isEnded {
		return content, nil, nil
	}
	return content, stable.Annotate(nil, release.Exposure{
		Digest: candidate.Digest, State: release.State(end.Outcome), Since: end.At, Reason: end.Reason,
	}), nil
}

// promotion returns the release by which copies of others were promoted together with what a member
// has now.
func promotion(m *member, members []*member) (release.Exposure, bool) {
	versions := map[string]string{}
	for _, other := range members {
		versions[other.name()] = other.source.Version
	}
	for _, other := range members {
		if other == m || other.copy == nil {
			continue
		}
		partners := other.copy.Partners()
		e := release.Exposure{With: map[string]string{other.name(): other.source.Version}}
		for name, id := range partners {
			if id == partners[m.name()] && versions[name] != "" {
				e.With[name] = versions[name]
			}
		}
		if e.With[m.name()] != "" && partners.IsOf(m.name(), e) {
			return e, true
		}
	}
	return release.Exposure{}, false
}

// undoing returns how what a member has now was taken back together with others.
func undoing(m *member, members []*member) (release.Entry, bool) {
	for _, other := range members {
		if other == m || other.copy == nil {
			continue
		}
		e := other.copy.Exposure()
		if e.State == release.Reverted && e.Digest == other.source.Digest && e.With[m.name()] == m.source.Version {
			return release.Entry{Outcome: string(e.State), At: e.Since, Reason: e.Reason}, true
		}
	}
	return release.Entry{}, false
}

// reportNotKept reports that former contents are not kept.
func (c *Controller) reportNotKept(ctx context.Context, m *member, err error) {
	text := "An edit cannot be taken back after its promotion, because what the object had before is not kept: " +
		err.Error()
	if c.reports.replace(m.ref(), ReasonNotKept, text) {
		c.event(ctx, m, notice{corev1.EventTypeWarning, ReasonNotKept, text})
	}
}

// forgetFormer deletes what is kept of an object that is not released any more.
func (c *Controller) forgetFormer(ctx context.Context, ref api.Ref) error {
	c.unkept.forget(ref)
	former, err := c.current(ctx, release.FormerOf(ref))
	if err != nil || former == nil || !former.IsFormerOf(ref) {
		return err
	}
	return c.delete(ctx, *former)
}
