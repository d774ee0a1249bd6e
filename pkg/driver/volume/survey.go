package volume

import (
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
)

// Survey is the state of all volumes in numbers.
type Survey struct {
	// NotCurrent counts the live volumes whose files are not, or may not be, what their sources say, by the kind of the
	// problem. Every kind that there can be is in it. [Busy] stands for volumes that are worked on for longer than a
	// survey waits. One that is being published, or waits for another one's turn, is none of them.
	NotCurrent map[Kind]int
	// Frozen counts live volumes that are not updated any more, other than by their own choice.
	Frozen int
	// Staleness is for how long the oldest change that is known is not in the files although nothing is known to be in its
	// way; zero when all are. Volumes with a problem are left out: they are in NotCurrent.
	Staleness time.Duration
}

// Survey looks at all volumes. It does not wait for those that are being worked on for long.
func (m *Manager) Survey() Survey {
	now := time.Now()
	s := Survey{NotCurrent: map[Kind]int{}}
	for _, kind := range Kinds() {
		if kind != Different && kind != Unknown { // These are about requests.
			s.NotCurrent[kind] = 0
		}
	}
	m.each(func(v *volume, locked bool) {
		if !v.isLive() {
			return // Nobody has its files.
		}
		kind := m.surveyed(v, locked, now)
		if kind != "" {
			s.NotCurrent[kind]++
		}
		if since := v.behindSince(locked); !since.IsZero() && (kind == "" || kind == Busy) {
			s.Staleness = max(s.Staleness, now.Sub(since))
		}
		if locked && v.frozen && v.problem != nil {
			s.Frozen++
		}
	})
	return s
}

// surveyed returns the kind of the problem of a live volume; empty for none.
//
//nolint:revive // Whether the volume is locked is what its lock cannot be asked.
func (m *Manager) surveyed(v *volume, locked bool, now time.Time) Kind {
	if !locked {
		if m.pulse.age(v.record.VolumeID, now) > patience {
			return Busy
		}
		return "" // The time was over before it was this one's turn.
	}
	if p := m.problemOf(v); p != nil {
		return Kind(p.Kind)
	}
	return ""
}

// behindSince returns when the oldest change became known that is not in the files; zero for none. A volume that does not
// follow its sources is behind nothing.
//
//nolint:revive // Whether the volume is locked is what its lock cannot be asked.
func (v *volume) behindSince(locked bool) time.Time {
	if v.spec.UpdatePolicy == api.UpdateNever || locked && v.frozen {
		return time.Time{}
	}
	since := v.dirty.oldest()
	if locked && !v.facts.behind.IsZero() && (since.IsZero() || v.facts.behind.Before(since)) {
		since = v.facts.behind
	}
	return since
}

// Recovered returns how many volumes of an earlier run were taken over.
func (m *Manager) Recovered() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.recovered
}
