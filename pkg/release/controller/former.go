package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
	return c.changeFormer(ctx, m, func(former stable.Object) (kept stable.Object, err error) {
		if newest, _ := former.Former().Newest(); newest.Digest != content.Digest {
			if former, err = former.Keep(content, time.Now()); err != nil {
				return former, err
			}
		}
		if end != nil {
			former = former.WithFormer(former.Former().WithEnd(*end))
		}
		return former, nil
	})
}

// keepAhead keeps the candidates of a group before the first of them becomes stable. So what was
// promoted together is known wherever one copy has it, whatever happens to the others.
func (c *Controller) keepAhead(ctx context.Context, members []*member, names []string) error {
	for _, m := range members {
		id := m.copy.Exposure().Release()
		if id == "" || !slices.Contains(names, m.name()) || c.unkept.rests(m.ref(), time.Now()) {
			continue
		}
		former, err := c.former(ctx, m)
		if err == nil {
			if _, isKept := former.Former().Of(id); isKept {
				continue
			}
			err = c.keepCandidate(ctx, m, id)
		}
		if err != nil && !isRefusal(err) { // See remember.
			return err
		}
	}
	return nil
}

func (c *Controller) keepCandidate(ctx context.Context, m *member, id string) error {
	content, err := c.candidate(ctx, m)
	if err != nil {
		return err
	}
	return c.changeFormer(ctx, m, func(former stable.Object) (stable.Object, error) {
		return former.KeepAhead(content, time.Now(), id)
	})
}

// changeFormer writes what is kept of a member.
func (c *Controller) changeFormer(
	ctx context.Context, m *member, change func(stable.Object) (stable.Object, error),
) error {
	former, err := c.former(ctx, m)
	if err != nil {
		return err
	}
	if former.Version != "" { // With its contents.
		if former, err = c.read(ctx, former.Ref); err != nil {
			return err
		}
	}
	if former, err = change(former); err != nil {
		return err
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
// annotations that keep an edit from its pods that was refused or taken back, or is shown to some;
// candidate for a member whose former contents are not kept. The copies of others of a group show
// what is not kept yet.
func (c *Controller) restored(
	ctx context.Context, m *member, candidate stable.Object, members []*member,
) (stable.Object, map[string]string, error) {
	former, err := c.read(ctx, release.FormerOf(m.ref()))
	if apierrors.IsNotFound(err) || err == nil && !former.IsFormerOf(m.ref()) {
		return candidate, nil, nil
	}
	if err != nil {
		return candidate, nil, err
	}
	f := former.Former()
	e, isReleased := exposureBeside(m, members)
	if end, isEnded := f.EndOf(candidate.Digest); isEnded && !isReleased {
		e, isReleased = release.Exposure{State: release.State(end.Outcome), Since: end.At, Reason: end.Reason}, true
	}
	stored, isKnown := f.Newest()
	if promoted, isPromoted := promotedBeside(m, members, f); isPromoted {
		stored, isKnown = promoted, true
	}
	if e.State.IsFinal() && stored.Digest == candidate.Digest {
		stored, isKnown = f.Before(candidate.Digest)
	}
	if !isKnown {
		return candidate, nil, nil
	}
	content, err := former.Kept(stored, candidate)
	if err != nil {
		klog.FromContext(ctx).Error(err, "The stable copy is made from what the object has", logkeys.Ref, m.ref())
		return candidate, nil, nil
	}
	if !isReleased || stored.Digest == candidate.Digest {
		return content, nil, nil
	}
	e.Digest = candidate.Digest
	return content, stable.Annotate(nil, e), nil
}

// promotedBeside returns the content that was promoted together with what the copy of another
// member has.
func promotedBeside(m *member, members []*member, f release.Former) (release.Stored, bool) {
	for _, other := range members {
		if other == m || other.copy == nil {
			continue
		}
		if stored, isKept := f.Of(other.copy.Partners()[m.name()]); isKept {
			return stored, true
		}
	}
	return release.Stored{}, false
}

// exposureBeside returns the exposure by which what a member has now is shown, or was taken back,
// together with others.
func exposureBeside(m *member, members []*member) (release.Exposure, bool) {
	for _, other := range members {
		if other == m || other.copy == nil {
			continue
		}
		e := other.copy.Exposure()
		if e.Digest == other.source.Digest && e.With[m.name()] == m.source.Version {
			return e, true
		}
	}
	return release.Exposure{}, false
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
