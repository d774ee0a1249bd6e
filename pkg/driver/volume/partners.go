package volume

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/files/atomicdir"
	"github.com/liveconfig-csi/liveconfig/pkg/release"
)

const (
	// partnersTime is how long the files of a live volume stay as they are if stable copies
	// disagree about which of them were promoted together: longer than an outage that passes by
	// itself.
	partnersTime = 10 * time.Minute
	// newcomersTime is how long a new volume waits for such copies. Its pod cannot start meanwhile.
	// A live volume has a problem then.
	newcomersTime = time.Minute
	// mostDisputes is how many disputes are remembered.
	mostDisputes = 1000
)

// dispute is a disagreement of two stable copies. The zero value means that they agree.
type dispute struct {
	copies  [2]api.Ref // The sources of these copies.
	between string     // The copies, and the releases that they name.
	since   time.Time
}

// disputes are when disputes began. Copies may disagree for ever, for instance if one of them was
// written by hand. So each dispute is waited for once, and not again at each write of the copies,
// which would let releases go past the volume.
type disputes struct {
	mu    sync.Mutex // Guards since.
	since map[string]time.Time
}

// begun returns the dispute with the time when it was seen first. If there are too many, the oldest
// one is forgotten: files may wait for it once more.
func (all *disputes) begun(d dispute) dispute {
	if d.between == "" {
		return d
	}
	all.mu.Lock()
	defer all.mu.Unlock()
	since, isKnown := all.since[d.between]
	if isKnown {
		d.since = since
		return d
	}
	if len(all.since) >= mostDisputes {
		oldest := slices.MinFunc(slices.Collect(maps.Keys(all.since)), func(a, b string) int {
			return all.since[a].Compare(all.since[b])
		})
		delete(all.since, oldest)
	}
	d.since = time.Now()
	all.since[d.between] = d.since
	return d
}

// disputeError is why a volume waits.
type disputeError struct {
	dispute

	until  time.Time
	isLive bool
}

func (e *disputeError) Error() string {
	effect := "a new pod waits for at most " + newcomersTime.String() + " until both are of one"
	if e.isLive {
		effect = "the files change when one release has promoted both, or at " + e.until.UTC().Format(time.RFC3339)
	}
	return fmt.Sprintf("the stable copies of %s and %s were promoted by different releases; %s: "+
		"see kubectl liveconfig release status", e.copies[0], e.copies[1], effect)
}

// awaitPartners returns an error while the volume would show one object of a group as it was
// promoted, and another one as it was before: the driver watches each copy separately, so it may
// learn of one later, and a controller may die before it has written all. For a live volume the
// error is an [atomicdir.EarlyError] at first: most disagreements are over soon.
func (l look) awaitPartners() error {
	d := l.dispute
	if d.between == "" || l.removesFiles() {
		return nil // Files that must go do not wait.
	}
	first := d.since.Add(newcomersTime)
	last := first
	if l.isLive {
		last = d.since.Add(partnersTime)
	}
	now := time.Now()
	switch {
	case !now.Before(last):
		return nil
	case l.isLive && now.Before(first):
		return &atomicdir.EarlyError{Until: first}
	}
	return &disputeError{d, last, l.isLive}
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
			return dispute{
				copies: [2]api.Ref{s.key.Ref, other}, between: fmt.Sprint(s.key.Ref, r.marks.Partners[name], other, named),
			}
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
