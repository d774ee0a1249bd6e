package volume

import (
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/files/atomicdir"
	"github.com/liveconfig-csi/liveconfig/pkg/release"
)

// partnersTime is how long the files of a live volume stay as they are if stable copies disagree
// about which of them were promoted together. That is longer than the time between two reads of an
// object that is polled. Copies disagree for longer if one of them was created again, for instance.
const partnersTime = time.Minute

// awaitPartners returns an [atomicdir.EarlyError] while a live volume would show one object of a
// group as it was promoted, and another one as it was before: the driver watches each copy
// separately, so it may learn of one later.
func (l look) awaitPartners(rs releases) error {
	if !l.isLive || l.removesFiles() {
		return nil // A new volume has no other content, and files that must go do not wait.
	}
	for ref, r := range rs.of {
		for name := range r.marks.Partners { // Copies of which neither names the other one agree.
			other, _ := release.RefOf(ref.Namespace, name)
			beside, isFollowed := rs.of[other]
			if !isFollowed || other == ref || !r.then.Found || !beside.then.Found || rs.agree(ref, other) {
				continue
			}
			newest := r.then.Changed
			if beside.then.Changed.After(newest) {
				newest = beside.then.Changed
			}
			if until := newest.Add(partnersTime); time.Now().Before(until) {
				return &atomicdir.EarlyError{Until: until}
			}
		}
	}
	return nil
}

// agree reports whether two sources can be shown beside each other: both copies were promoted by
// the same releases, or the candidate of one is shown, by the release by which the other was
// promoted.
func (rs releases) agree(a, b api.Ref) bool {
	ofA, ofB := rs.of[a].marks.Partners, rs.of[b].marks.Partners
	return ofA[release.NameOf(b)] == ofB[release.NameOf(a)] || rs.isShownBeside(b, ofA) || rs.isShownBeside(a, ofB)
}

// isShownBeside reports whether pods have the candidate of a source by the release by which another
// copy, with these partners, was promoted. So they do not if a person has ended that release.
func (rs releases) isShownBeside(ref api.Ref, promoted release.Partners) bool {
	a := rs.of[ref].marks.Audience
	return promoted.IsPromotedWith(release.NameOf(ref), a) && (a.State().IsFinal() || rs.shows(ref))
}
