package controller

import (
	"context"
	"maps"
	"slices"
	"time"

	"k8s.io/klog/v2"

	"github.com/liveconfig-csi/liveconfig/pkg/daemon/logkeys"
	"github.com/liveconfig-csi/liveconfig/pkg/release"
	"github.com/liveconfig-csi/liveconfig/pkg/release/stable"
)

// settle ends disagreements of stable copies that no release under way will end: drivers leave
// files as they are because of them, so no step of a release would reach pods. A copy that has
// missed the promotion of its group gets what was promoted. If that is not known, what the copies
// have is accepted, unless an undo may be under way.
func (c *Controller) settle(ctx context.Context, members []*member) error {
	if c.cfg.DryRun {
		return nil
	}
	parties := map[string]*party{}
	for _, m := range members {
		parties[m.name()] = newParty(m)
	}
	for _, m := range members {
		err := c.settleMember(ctx, parties[m.name()], parties)
		if isRefusal(err) { // It stops no release, and the next write of that copy reports it.
			klog.FromContext(ctx).Error(err, "Stable copies disagree", logkeys.Ref, m.ref())
			continue
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// party is an object with a copy, and what the copy has of others, read once.
type party struct {
	*member

	partners release.Partners
	exposure release.Exposure
	shown    string // Stands for the release that the exposure is of.
}

func newParty(m *member) *party {
	e := m.copy.Exposure()
	return &party{m, m.copy.Partners(), e, e.Release()}
}

// settleMember ends disagreements of one copy. parties are the members of the unit; objects outside
// of it that the copy names are added.
func (c *Controller) settleMember(ctx context.Context, p *party, parties map[string]*party) error {
	for name := range p.partners {
		if _, isKnown := parties[name]; isKnown {
			continue
		}
		other, err := c.partyOf(ctx, p.ref().Namespace, name)
		if err != nil {
			return err
		}
		parties[name] = other
	}
	for _, name := range slices.Sorted(maps.Keys(parties)) {
		other := parties[name]
		if other == nil || other.ref() == p.ref() || p.agrees(other) {
			continue
		}
		if err := c.settleOne(ctx, p, other); err != nil {
			return err
		}
	}
	return nil
}

// partyOf returns an object that has a stable copy; nil for one that has none.
func (c *Controller) partyOf(ctx context.Context, namespace, name string) (*party, error) {
	ref, isOne := release.RefOf(namespace, name)
	if !isOne {
		return nil, nil //nolint:nilnil // Somebody has written a name of no object.
	}
	copied, err := c.current(ctx, release.StableOf(ref))
	if err != nil || copied == nil || !copied.IsCopyOf(ref) {
		return nil, err
	}
	source, err := c.current(ctx, ref)
	if err != nil || source == nil {
		return nil, err
	}
	return newParty(&member{source: *source, copy: copied}), nil
}

// agrees reports whether two copies are of one release, or a release or an undo is under way that
// makes them so.
func (p *party) agrees(other *party) bool {
	own, others := p.partners[other.name()], other.partners[p.name()]
	return own == others || p.isUndoneWith(other) || other.isUndoneWith(p) ||
		others != "" && p.shown == others || own != "" && other.shown == own
}

// isUndoneWith reports whether an edit was taken back from one object, and is still to be taken
// back from the other one.
func (p *party) isUndoneWith(other *party) bool {
	return p.exposure.State == release.Reverted && p.exposure.With[other.name()] == other.source.Version
}

// isReleased reports whether the object has an edit that is not stable, or that was taken back.
func (p *party) isReleased() bool {
	return p.source.Digest != p.copy.Digest || p.exposure.Digest != ""
}

// hasLeft reports whether the copy does not have what a release made stable.
func (p *party) hasLeft(kept release.Stored) bool {
	return kept.Digest != "" && kept.Digest != p.copy.Digest
}

// settleOne ends a disagreement.
func (c *Controller) settleOne(ctx context.Context, p, other *party) error {
	own, id := p.partners[other.name()], other.partners[p.name()]
	kept, isMissed, err := c.missed(ctx, p, id)
	if err != nil {
		return err
	}
	if isMissed {
		return c.complete(ctx, p, kept, other.name(), id)
	}
	keptOther, isMissed, err := c.missed(ctx, other, own)
	if err != nil {
		return err
	}
	if isMissed {
		return c.complete(ctx, other, keptOther, p.name(), own)
	}
	if (p.isReleased() || other.isReleased()) && (p.hasLeft(kept) || other.hasLeft(keptOther)) {
		return nil // One was taken back already, and the other one may be about to be.
	}
	klog.FromContext(ctx).Info("Stable copies disagree, and are accepted", logkeys.Ref, p.ref(), logkeys.Other,
		other.ref())
	if err := c.annotate(ctx, p.member, stable.AnnotatePartner(p.copy.Annotations, other.name(), id)); err != nil {
		return err
	}
	p.partners = p.copy.Partners()
	return nil
}

// missed returns what is kept of the content that a release made stable, or was to make stable, and
// whether the copy of the object has missed that.
func (c *Controller) missed(ctx context.Context, p *party, id string) (kept release.Stored, isMissed bool, err error) {
	former, err := c.current(ctx, release.FormerOf(p.ref()))
	if err != nil || former == nil || !former.IsFormerOf(p.ref()) {
		return kept, false, err
	}
	f := former.Former()
	kept, _ = f.Of(id)
	_, isEnded := f.EndOf(kept.Digest)
	return kept, kept.IsAhead && kept.Digest != p.copy.Digest && !isEnded, nil
}

// complete writes what was promoted together with the copy of another object, and this copy has
// missed.
func (c *Controller) complete(ctx context.Context, p *party, stored release.Stored, name, id string) error {
	former, err := c.read(ctx, release.FormerOf(p.ref()))
	if err != nil {
		return err
	}
	content, err := former.Kept(stored, p.source)
	if err != nil {
		klog.FromContext(ctx).Error(err, "A promotion is not completed", logkeys.Ref, p.ref())
		return nil
	}
	annotations := stable.AnnotatePartner(p.copy.Annotations, name, id)
	annotations = stable.AnnotateCompleted(annotations, stored.Digest, time.Now())
	c.requests.Spend(p.ref().Namespace)
	written, err := c.writer.Write(ctx, *p.copy, annotations, &content)
	if err != nil {
		return err
	}
	c.known.set(written)
	written = written.WithoutData()
	p.copy, p.partners = &written, written.Partners()
	return nil
}
