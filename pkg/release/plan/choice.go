package plan

import (
	"cmp"
	"slices"

	"github.com/liveconfig-csi/liveconfig/pkg/release"
	"github.com/liveconfig-csi/liveconfig/pkg/release/settings"
)

// choice is which pods have a candidate.
type choice struct{ pods []*chosen }

// chosen is a pod with its place.
type chosen struct {
	Pod

	position float64
	isShown  bool
	// turn is how many pods of its node have the candidate when it is this pod's turn.
	turn int
}

// order compares two pods: the first gets the candidate before the second.
type order func(a, b *chosen) int

func byPosition(a, b *chosen) int {
	return cmp.Or(cmp.Compare(a.position, b.position), cmp.Compare(a.UID, b.UID))
}

// readyFirst has pods first that can show whether an edit is good: one that is not Ready cannot. Of
// those that are equal in that, pods on nodes with the fewest pods that have it come first.
func readyFirst(a, b *chosen) int {
	return cmp.Or(cmp.Compare(a.rank(), b.rank()), cmp.Compare(a.turn, b.turn), byPosition(a, b))
}

func (p *chosen) rank() int {
	switch {
	case p.IsDisrupted:
		return 2
	case !p.IsReady:
		return 1
	}
	return 0
}

// newChoice returns the pods that run in an order, with those that have the candidate already.
func newChoice(e release.Exposure, pods []Pod, by order) choice {
	var c choice
	for _, p := range pods {
		if !p.HasFailed {
			c.pods = append(c.pods, &chosen{Pod: p, position: e.Position(p.UID), isShown: e.Shows(p.UID, e.Digest)})
		}
	}
	slices.SortFunc(c.pods, by)
	return c
}

// spread gives pods their turns, so that the first ones are on different nodes.
func (c choice) spread() {
	slices.SortFunc(c.pods, readyFirst)
	turns := map[string]int{}
	for _, p := range c.filter(func(p *chosen) bool { return p.isShown && p.runs() }) {
		turns[p.Node]++
	}
	for _, p := range c.filter(func(p *chosen) bool { return !p.isShown }) {
		p.turn = turns[p.Node]
		turns[p.Node]++
	}
	slices.SortFunc(c.pods, readyFirst)
}

// show shows the candidate to more pods, up to a number of them. Pods that share files have it
// together, or not at all: then a later step shows it to them.
func (c choice) show(wanted int) {
	shown := countRunning(c.filter(func(p *chosen) bool { return p.isShown }))
	for _, p := range c.pods {
		if p.isShown || shown >= wanted {
			continue
		}
		together := c.filter(func(other *chosen) bool {
			return !other.isShown && (other == p || p.SharesWith != "" && other.SharesWith == p.SharesWith)
		})
		running := countRunning(together)
		if shown+running > wanted {
			continue
		}
		for _, other := range together {
			other.isShown = true
		}
		shown += running
	}
}

// countRunning counts the pods that may prove something. Others are beside the number of a step.
func countRunning(pods []*chosen) (count int) {
	for _, p := range pods {
		if p.runs() {
			count++
		}
	}
	return count
}

func (c choice) filter(is func(*chosen) bool) (some []*chosen) {
	for _, p := range c.pods {
		if is(p) {
			some = append(some, p)
		}
	}
	return some
}

// firstHidden returns the lowest position of a pod without the candidate; 1 for none.
func (c choice) firstHidden() float64 {
	first := 1.0
	for _, p := range c.filter(func(p *chosen) bool { return !p.isShown }) {
		first = min(first, p.position)
	}
	return first
}

// shownFrom returns the UIDs of the pods that have the candidate from a position on, sorted.
func (c choice) shownFrom(position float64) (uids []string) {
	for _, p := range c.filter(func(p *chosen) bool { return p.isShown && p.position >= position }) {
		uids = append(uids, p.UID)
	}
	slices.Sort(uids)
	return uids
}

// share adds pods to an exposure until a step is reached, Ready ones before others and then those
// at the lowest positions; if the step is for few pods, on different nodes. If that names too many
// pods beside the threshold, only positions count. Pods that have the candidate keep it. A share is
// a threshold too, by which new pods have their part of it; a number of pods is a list of them.
func (r run) share(e release.Exposure, step settings.Step) release.Exposure {
	e.Digest = r.changed[0].Candidate // With one object that is what positions come from.
	for attempt, by := range []order{readyFirst, byPosition} {
		c := newChoice(e, r.Pods, by)
		wanted := step.Pods
		if wanted == 0 {
			const rounding = 1e-9 // 29 % of 100 pods are 29.
			wanted = max(1, int(step.Share*float64(len(Running(r.Unit)))+rounding))
		}
		if attempt == 0 && wanted <= mostNodes { // More are on many nodes anyway.
			c.spread()
		}
		c.show(wanted)
		shared := e
		if step.Pods == 0 {
			shared.Threshold = max(e.Threshold, min(step.Share, c.firstHidden()))
		}
		if shared.Pods = c.shownFrom(shared.Threshold); len(shared.Pods) <= release.MostPods {
			return shared
		}
	}
	return e // No step names so many pods: see the limits of settings.
}
