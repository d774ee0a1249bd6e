package plan

import (
	"fmt"
	"slices"

	"github.com/liveconfig-csi/liveconfig/pkg/release"
)

// IsTakenBack reports whether the candidates of a unit were shown to pods, or may have been, and
// are shown to none any more.
func IsTakenBack(u Unit) bool {
	return slices.ContainsFunc(u.Objects, func(o Object) bool {
		isTaken := o.Exposure.State == release.Reverted || o.Exposure.State == release.Refused
		return o.isChanged() && o.Exposure.Digest == o.Candidate && isTaken
	})
}

// takeBack has drivers asked whether the files of pods that had the candidates have what was stable
// before.
func (r run) takeBack() Decision {
	if !r.isAsked() {
		return Decision{Action: Rest}
	}
	pods, isKnown := r.formerly()
	isOpen := func(p Pod) bool {
		return p.Proof == nil || p.Proof.Missing != "" && r.Now.Sub(p.Proof.At) >= proofTime
	}
	if slices.ContainsFunc(pods, isOpen) {
		return Decision{Action: Ask, Names: r.names(), Pods: pods}
	}
	for _, p := range pods {
		if p.Proof.Missing != "" {
			doubt := fmt.Sprintf("pod %s on node %s: %s", p.Name, p.Node, p.Proof.Missing)
			return Decision{Action: Rest, Doubt: doubt, After: proofTime}
		}
	}
	if !isKnown {
		return Decision{Action: Rest}
	}
	return Decision{Action: Rest, Confirmed: len(pods)}
}

// formerly returns the pods that had the candidates, on few nodes. If these are not known, because
// the controller has started since, others stand for them.
func (r run) formerly() (pods []Pod, isKnown bool) {
	had := slices.DeleteFunc(Running(r.Unit), func(p Pod) bool { return p.Before == nil })
	if len(had) > 0 {
		return onFewNodes(had), true
	}
	if slices.ContainsFunc(r.changed, func(o Object) bool { return o.Exposure.State == release.Reverted }) {
		return onFewNodes(Running(r.Unit)), false
	}
	return nil, false
}
