package volume

import (
	"slices"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/driver/source"
	"github.com/liveconfig-csi/liveconfig/pkg/files/atomicdir"
	"github.com/liveconfig-csi/liveconfig/pkg/release"
)

// partnersTime is how long the files of a live volume stay as they are if stable copies disagree
// about which of them were promoted together. That is longer than the time between two reads of an
// object that is polled. Copies disagree for longer if one of them was created again, for instance.
const partnersTime = time.Minute

// awaitPartnersLocked returns an [atomicdir.EarlyError] while a live volume would show one object
// of a group as it was promoted, and another one as it was before: the driver watches each copy
// separately, so it may learn of one later.
func (pl planner) awaitPartnersLocked(p *projection) error {
	isRevoked := func(key source.Key) bool { return pl.sources.Get(key).Revoked }
	if !p.isLive() || p.followsLossLocked() && slices.ContainsFunc(p.keys, isRevoked) {
		return nil // A new volume has no other content, and files that must go do not wait.
	}
	for key, c := range p.copies {
		for other, beside := range p.copies {
			a, b := pl.sources.Get(c.key), pl.sources.Get(beside.key)
			if key == other || key.Ref.Namespace != other.Ref.Namespace || !a.Found || !b.Found || pl.agreeLocked(p, key, other) {
				continue
			}
			newest := a.Changed
			if b.Changed.After(newest) {
				newest = b.Changed
			}
			if until := newest.Add(partnersTime); time.Now().Before(until) {
				return &atomicdir.EarlyError{Until: until}
			}
		}
	}
	return nil
}

// agreeLocked reports whether two sources can be shown beside each other: both copies were promoted
// by the same releases, or the candidate of one is shown, by the release by which the other was
// promoted.
func (pl planner) agreeLocked(p *projection, a, b source.Key) bool {
	ofA, ofB := pl.partnersLocked(p, a), pl.partnersLocked(p, b)
	nameA, nameB := release.NameOf(a.Ref), release.NameOf(b.Ref)
	return ofA[nameB] == ofB[nameA] || pl.isShownBesideLocked(p, b, ofA) || pl.isShownBesideLocked(p, a, ofB)
}

// isShownBesideLocked reports whether pods have the candidate of a source by the release by which
// another copy, with these partners, was promoted. So they do not if a person has ended that
// release.
func (pl planner) isShownBesideLocked(p *projection, key source.Key, promoted release.Partners) bool {
	e := pl.exposureLocked(p, key)
	return promoted.IsPromotedWith(release.NameOf(key.Ref), e) && (e.State.IsFinal() || pl.showsCandidateLocked(p, key, pl.sources.Get(key).Content))
}

func (pl planner) partnersLocked(p *projection, key source.Key) release.Partners {
	content := pl.sources.Get(p.copies[key].key).Content
	if content.Release == nil {
		return nil
	}
	return release.ParsePartners(content.Release.Partners)
}
