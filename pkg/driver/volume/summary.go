package volume

import (
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
)

// Summary is the state of all volumes in numbers.
type Summary struct {
	// NotCurrent counts the live volumes whose files are not, or may not be, current, by the kind
	// of the problem. It has an entry for every kind that a live volume can have. [Busy] counts
	// volumes that have been worked on for longer than a summary waits. It does not count a volume
	// that is being published, or that waits because another one is worked on.
	NotCurrent map[Kind]int
	// Frozen counts live volumes that are not updated any more, although their policy asks for it.
	Frozen int
	// Staleness is the age of the oldest known change that is not in the files; zero if all changes
	// are. It leaves out volumes with a problem: NotCurrent counts those.
	Staleness time.Duration
}

// summary returns the state of all volumes in numbers. Volumes that are not live do not count:
// nobody uses their files.
func (d *describer) summary() Summary {
	now := time.Now()
	s := Summary{NotCurrent: map[Kind]int{}}
	for _, kind := range Kinds() {
		if kind != Different && kind != Unknown { // These are about requests.
			s.NotCurrent[kind] = 0
		}
	}
	d.each(visitor{
		locked: func(v *volume) {
			if v.isLive() {
				d.addLocked(&s, v, now)
			}
		},
		busy: func(v *volume) {
			if v.isLive() {
				d.addBusy(&s, v, now)
			}
		},
	})
	return s
}

func (d *describer) addLocked(s *Summary, v *volume, now time.Time) {
	of := v.projection()
	if of.frozen && of.problem != nil {
		s.Frozen++
	}
	if p := v.describeProblemLocked(of.lookLocked(d.sources)); p != nil {
		s.NotCurrent[Kind(p.Kind)]++
		return
	}
	if !of.frozen {
		s.addStaleness(of, now, of.facts.behind)
	}
}

func (d *describer) addBusy(s *Summary, v *volume, now time.Time) {
	if max(d.stalls.age(v.record.VolumeID, now), d.stalls.age(v.projection().id, now)) > statusTimeout { // Else the time was over before its turn came.
		s.NotCurrent[Busy]++
	}
	s.addStaleness(v.projection(), now, time.Time{})
}

// addStaleness adds the age of a projection's oldest change that is not in the files. behind is
// that of a change that a sync could not write; zero for none.
func (s *Summary) addStaleness(p *projection, now, behind time.Time) {
	if p.spec.UpdatePolicy == api.UpdateNever { // It does not follow its sources.
		return
	}
	since := p.flags.oldestChange()
	if !behind.IsZero() && (since.IsZero() || behind.Before(since)) {
		since = behind
	}
	if !since.IsZero() {
		s.Staleness = max(s.Staleness, now.Sub(since))
	}
}
