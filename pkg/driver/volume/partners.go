package volume

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/files/atomicdir"
	"github.com/liveconfig-csi/liveconfig/pkg/release"
)

// partnersTime is how long the files of a live volume stay as they are if stable copies disagree
// about which of them were promoted together. That is longer than the time between two reads of an
// object that is polled.
const partnersTime = time.Minute

// dispute is a disagreement of two stable copies. The zero value means that they agree.
type dispute struct {
	between string // The copies, and the releases that they name.
	since   time.Time
}

// awaitPartners returns an [atomicdir.EarlyError] while a live volume would show one object of a
// group as it was promoted, and another one as it was before: the driver watches each copy
// separately, so it may learn of one later. Copies may disagree for ever, for instance if one of
// them was written by hand. So each dispute is waited for once, and not again at each write of the
// copies, which would let releases go past the volume.
func (l look) awaitPartners() error {
	if !l.isLive || l.dispute.between == "" || l.removesFiles() {
		return nil // A new volume has no other content, and files that must go do not wait.
	}
	if until := l.dispute.since.Add(partnersTime); time.Now().Before(until) {
		return &atomicdir.EarlyError{Until: until}
	}
	return nil
}

// after returns the dispute that there is now. It has lasted for as long as before if it is the
// same one.
func (d dispute) after(before dispute) dispute {
	if d.between != "" && d.between == before.between {
		return before
	}
	return d
}

// dispute returns the first disagreement, in the order of the sources.
func (rs releases) dispute(l look) dispute {
	for s := range l.sources() {
		r := rs.of[s.key.Ref]
		if r == nil || !r.then.Found {
			continue
		}
		// Copies of which neither names the other one agree.
		for _, name := range slices.Sorted(maps.Keys(r.marks.Partners)) {
			other, _ := release.RefOf(s.key.Ref.Namespace, name)
			beside, isFollowed := rs.of[other]
			if !isFollowed || other == s.key.Ref || !beside.then.Found || rs.agree(s.key.Ref, other) {
				continue
			}
			named := beside.marks.Partners[release.NameOf(s.key.Ref)]
			return dispute{between: fmt.Sprint(s.key.Ref, r.marks.Partners[name], other, named), since: time.Now()}
		}
	}
	return dispute{}
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
