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

// Summary returns the state of all volumes in numbers. Volumes that are not live do not count:
// nobody uses their files. It does not wait long for volumes that are being worked on.
func (m *Manager) Summary() Summary {
	now := time.Now()
	s := Summary{NotCurrent: map[Kind]int{}}
	for _, kind := range Kinds() {
		if kind != Different && kind != Unknown { // These are about requests.
			s.NotCurrent[kind] = 0
		}
	}
	m.each(visitor{
		locked: func(h held, v *volume) {
			if v.isLive() {
				s.add(h, v, now)
			}
		},
		busy: func(v *volume) {
			if v.isLive() {
				m.addBusy(&s, v, now)
			}
		},
	})
	return s
}

func (s *Summary) add(h held, v *volume, now time.Time) {
	if h.frozen && h.problem != nil {
		s.Frozen++
	}
	if _, problem := h.condition(v, h.look()); problem != nil {
		s.NotCurrent[kindOf(problem)]++
		return
	}
	if !h.frozen {
		s.addStaleness(h.projection, now, h.facts.behind)
	}
}

func (m *Manager) addBusy(s *Summary, v *volume, now time.Time) {
	// Else the time was over before its turn came.
	if max(m.stalls.age(v.record.VolumeID, now), m.stalls.age(v.projection().id, now)) > statusTimeout {
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
