package plan

import (
	"slices"
	"time"
)

// Exposed returns the pods that run and that the candidates of a unit are shown to.
func Exposed(u Unit) []Pod {
	return slices.DeleteFunc(Running(u), func(p Pod) bool {
		_, isShown := u.shownSince(p)
		return !isShown
	})
}

// Running returns the pods of a unit that run, without those that are evicted or whose node is
// lost.
func Running(u Unit) []Pod {
	return slices.DeleteFunc(slices.Clone(u.Pods), func(p Pod) bool { return !p.runs() })
}

// shownSince reports whether a pod has a candidate, and since when the step lasts in which it has
// it.
func (u Unit) shownSince(p Pod) (since time.Time, isShown bool) {
	for _, o := range u.Objects {
		if o.isChanged() && o.Exposure.Shows(p.UID, o.Candidate) {
			return o.Exposure.Since, true
		}
	}
	return time.Time{}, false
}

// Look returns what is to be remembered of the pods that have a candidate, or had one that was
// taken back, given what was remembered of them until now, by UID.
func Look(u Unit, before map[string]*Seen) map[string]*Seen {
	seen := map[string]*Seen{}
	isTakenBack := IsTakenBack(u)
	for _, p := range u.Pods {
		since, isShown := u.shownSince(p)
		switch last := before[p.UID]; {
		case isTakenBack && last != nil:
			seen[p.UID] = last
		case !isShown || p.HasFailed:
		case p.IsDisrupted:
			seen[p.UID] = p.disrupted()
		case last == nil:
			seen[p.UID] = p.seen(p.isNew(since))
		case !last.IsReady && !last.IsNew:
			seen[p.UID] = p.seen(false)
		default:
			seen[p.UID] = p.lookAgain(last)
		}
	}
	return seen
}

// lookAgain returns what is to be remembered of a pod that was seen before.
func (p Pod) lookAgain(last *Seen) *Seen {
	p.Before = last
	ended := p.ends(time.Time{})
	isRestarted := p.IsReady && !ended.exited.IsZero()
	if ended.crash != "" || last.IsReady && !isRestarted {
		return last
	}
	return p.seenAgain(last)
}

// disrupted returns what is to be remembered of a pod that is disrupted: it is as one that was not
// Ready before the edit, until it is Ready again.
func (p Pod) disrupted() *Seen {
	p.IsReady = false
	return p.seen(false)
}
