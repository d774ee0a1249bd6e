package plan

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/release"
	"github.com/liveconfig-csi/liveconfig/pkg/release/settings"
)

const (
	// mostNodes is how many drivers are asked about one step. In a larger step these nodes stand
	// for all.
	mostNodes = 20
	// proofTime is how old a proof may be, and how long it takes until drivers are asked again.
	proofTime = 5 * time.Second
)

// Proof is what a driver has reported about the files of a pod.
type Proof struct {
	// At is when the driver was asked.
	At time.Time
	// Missing is why it is not known that the files have the candidates; empty if they have them.
	Missing string
	// Since is since when the files have the candidates, at the latest; zero if that is not known.
	Since time.Time
}

// isAsked reports whether drivers are asked about the files of pods.
func (r run) isAsked() bool {
	isStaged := len(r.Settings.Steps) > 0 || r.Settings.Watch > 0
	return r.CanProve && r.Settings.Evidence == settings.EvidenceFiles && isStaged
}

// prove decides what to do at the end of a step, unless it is proven that pods work with the
// candidates.
func (r run) prove(current release.Exposure) (d Decision, isNeeded bool) {
	if !r.isAsked() || !current.State.IsStep() {
		return Decision{}, false
	}
	pods := r.sample(current)
	end := current.Since.Add(r.pause(current))
	isOld := func(p Pod) bool {
		return p.Proof == nil || p.Proof.At.Before(end) || r.Now.Sub(p.Proof.At) >= proofTime
	}
	if slices.ContainsFunc(pods, isOld) {
		return Decision{Action: Ask, Names: r.names(), Pods: pods}, true
	}
	if doubt := r.doubt(current, pods); doubt != "" {
		return r.wait(current, doubt), true
	}
	rest := r.unwatched(current, pods)
	return r.watchFor(current, rest), rest > 0
}

// unwatched returns how much longer a step lasts because its files got the candidates late: a pod
// that proves something must have worked with them for the time of the step.
func (r run) unwatched(current release.Exposure, pods []Pod) time.Duration {
	least := r.pause(current)
	for _, p := range pods {
		if r.Settings.Check == settings.CheckNone || p.wasReady(current.Since) {
			least = min(least, p.Proof.Since.Add(r.pause(current)).Sub(r.Now))
		}
	}
	return least
}

// watchFor has a step last longer. It does not wait for anybody any more.
func (r run) watchFor(current release.Exposure, rest time.Duration) Decision {
	if current.State != release.Waiting {
		return Decision{Action: Rest, After: rest}
	}
	current.State, current.Reason = release.Progressing, ""
	return r.expose(current)
}

// wait has a release wait, and its exposure name the reason.
func (r run) wait(current release.Exposure, reason string) Decision {
	if current.State == release.Waiting && current.Reason == reason {
		return Decision{Action: Rest, After: proofTime}
	}
	current.State, current.Reason = release.Waiting, reason
	return r.expose(current)
}

// sample returns pods that can prove something: they have the candidates and, if that counts, are
// Ready. They are on few nodes, the same ones each time.
func (r run) sample(current release.Exposure) (pods []Pod) {
	current.Digest = r.changed[0].Candidate
	for _, p := range Running(r.Unit) {
		if r.hasCandidate(current, p) && (p.IsReady || r.Settings.Check == settings.CheckNone) {
			pods = append(pods, p)
		}
	}
	return onFewNodes(pods)
}

// onFewNodes returns the pods of some nodes.
func onFewNodes(pods []Pod) []Pod {
	slices.SortFunc(pods, func(a, b Pod) int { return cmp.Compare(a.UID, b.UID) })
	nodes := map[string]bool{}
	return slices.DeleteFunc(pods, func(p Pod) bool {
		if !nodes[p.Node] && len(nodes) == mostNodes {
			return true
		}
		nodes[p.Node] = true
		return false
	})
}

// doubt returns why it is not proven that pods work with the candidates; empty if it is.
func (r run) doubt(current release.Exposure, pods []Pod) string {
	if len(pods) == 0 {
		return "no pod that is Ready has the edit"
	}
	for _, p := range pods {
		if p.Proof.Missing != "" {
			return fmt.Sprintf("it is not known that the files of pod %s on node %s have the edit: %s", p.Name, p.Node,
				p.Proof.Missing)
		}
	}
	isProven := func(p Pod) bool { return p.wasReady(current.Since) }
	if r.Settings.Check == settings.CheckReady && !slices.ContainsFunc(pods, isProven) {
		return "no pod has the edit that was Ready before it, or began with it"
	}
	return ""
}

// wasReady reports whether a pod was Ready before it got the candidate, or began with it.
func (p Pod) wasReady(since time.Time) bool {
	if p.Before != nil {
		return p.Before.IsReady || p.Before.IsNew
	}
	return p.isNew(since) || p.Changed.Before(since)
}
