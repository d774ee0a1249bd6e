package controller

import (
	"context"
	"maps"
	"slices"
	"time"

	"k8s.io/klog/v2"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/daemon/logkeys"
	"github.com/liveconfig-csi/liveconfig/pkg/release"
	"github.com/liveconfig-csi/liveconfig/pkg/release/stable"
)

// settle ends disagreements of stable copies that no release under way will end: drivers leave
// files as they are because of them. A copy that has missed the promotion of its group gets what
// was promoted. If that is not known, and nothing is released, what the copies have is accepted.
func (c *Controller) settle(ctx context.Context, members []*member) error {
	if c.cfg.DryRun {
		return nil
	}
	for _, m := range members {
		for _, ref := range partnerRefs(m, members) {
			other, err := c.current(ctx, release.StableOf(ref))
			if err != nil {
				return err
			}
			if other == nil || !other.IsCopyOf(ref) || agrees(m, ref, other) {
				continue
			}
			if err := c.settleOne(ctx, m, ref, other); err != nil {
				return err
			}
		}
	}
	return nil
}

// partnerRefs returns the objects that a copy was promoted together with, and the other members.
func partnerRefs(m *member, members []*member) (refs []api.Ref) {
	names := map[string]bool{}
	for name := range m.copy.Partners() {
		names[name] = true
	}
	for _, other := range members {
		names[other.name()] = other != m
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if ref, isOne := release.RefOf(m.ref().Namespace, name); isOne && names[name] && ref != m.ref() {
			refs = append(refs, ref)
		}
	}
	return refs
}

// agrees reports whether the copies of a member and of another object are of one release, or a
// release or an undo is under way that makes them so.
func agrees(m *member, ref api.Ref, other *stable.Object) bool {
	own, others := m.copy.Partners()[release.NameOf(ref)], other.Partners()[m.name()]
	mine, theirs := m.copy.Exposure(), other.Exposure()
	isUndone := theirs.State == release.Reverted && theirs.With[m.name()] == m.source.Version ||
		mine.State == release.Reverted && mine.With[release.NameOf(ref)] != ""
	return own == others || isUndone || others != "" && mine.Release() == others || own != "" && theirs.Release() == own
}

// settleOne ends a disagreement with the copy of another object.
func (c *Controller) settleOne(ctx context.Context, m *member, ref api.Ref, other *stable.Object) error {
	name, own, id := release.NameOf(ref), m.copy.Partners()[release.NameOf(ref)], other.Partners()[m.name()]
	kept, isMissed, err := c.missed(ctx, m.ref(), m.copy, id)
	if err != nil {
		return err
	}
	if isMissed {
		return c.complete(ctx, m, kept, name, id)
	}
	keptOther, isMissed, err := c.missed(ctx, ref, other, own)
	if err != nil {
		return err
	}
	if isMissed {
		source, err := c.current(ctx, ref)
		if err != nil || source == nil {
			return err
		}
		return c.complete(ctx, &member{source: *source, copy: other}, keptOther, m.name(), own)
	}
	isReleased := m.source.Digest != m.copy.Digest || m.copy.Exposure().Digest != "" || other.Exposure().Digest != ""
	if isReleased && (kept.Digest == "" || kept.Digest != m.copy.Digest) {
		return nil // The next release may end it.
	}
	klog.FromContext(ctx).Info("Stable copies disagree, and are accepted", logkeys.Ref, m.ref(), logkeys.Other, ref)
	return c.annotate(ctx, m, stable.AnnotatePartner(m.copy.Annotations, name, id))
}

// missed returns what is kept of the content that a release made stable, or was to make stable, and
// whether the copy of the object has missed that.
func (c *Controller) missed(
	ctx context.Context, ref api.Ref, is *stable.Object, id string,
) (kept release.Stored, isMissed bool, err error) {
	former, err := c.current(ctx, release.FormerOf(ref))
	if err != nil || former == nil || !former.IsFormerOf(ref) {
		return kept, false, err
	}
	f := former.Former()
	kept, _ = f.Of(id)
	_, isEnded := f.EndOf(kept.Digest)
	return kept, kept.IsAhead && kept.Digest != is.Digest && !isEnded, nil
}

// complete writes what was promoted together with the copy of another object, and this copy has
// missed.
func (c *Controller) complete(ctx context.Context, m *member, stored release.Stored, name, id string) error {
	former, err := c.read(ctx, release.FormerOf(m.ref()))
	if err != nil {
		return err
	}
	content, err := former.Kept(stored, m.source)
	if err != nil {
		klog.FromContext(ctx).Error(err, "A promotion is not completed", logkeys.Ref, m.ref())
		return nil
	}
	annotations := stable.AnnotatePartner(m.copy.Annotations, name, id)
	annotations = stable.AnnotateCompleted(annotations, stored.Digest, time.Now())
	c.requests.Spend(m.ref().Namespace)
	written, err := c.writer.Write(ctx, *m.copy, annotations, &content)
	if err != nil {
		return err
	}
	c.known.set(written)
	written = written.WithoutData()
	m.copy = &written
	return nil
}
