package release

import (
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/nodes"
	"github.com/liveconfig-csi/liveconfig/pkg/release"
	"github.com/liveconfig-csi/liveconfig/pkg/release/settings"
)

type viewState string

// The states, besides those of package release.
const (
	stateStable viewState = "Stable" // All pods have what the object has.
	// stateWaiting: the controller has not looked at the edit yet. No pod has it.
	stateWaiting viewState = "Waiting"
	// stateNew: there is no stable copy yet. All pods have what the object has.
	stateNew viewState = "New"
	// stateMistaken: the annotation is wrong. No further pod gets an edit.
	stateMistaken viewState = "Mistaken"
)

func (s viewState) hasFailed() bool { return s == stateMistaken || release.State(s).IsFinal() }

type view struct {
	Object    string    `json:"object"`
	Namespace string    `json:"namespace"`
	State     viewState `json:"state"`
	// Step counts from 1, of so many Steps; 0 if no step has begun.
	Step  int `json:"step,omitempty"`
	Steps int `json:"steps"`
	// Shown is how many of the Pods have what the object has.
	Shown int `json:"shown"`
	Pods  int `json:"pods"`
	// Ready is how many of the Shown pods are Ready, while not all pods have an edit.
	Ready *int `json:"ready,omitempty"`
	// InFiles is how many of the Asked pods have what the object has now in their files, by the
	// drivers of their nodes. They are some of the Shown pods. It is nil if no driver answered.
	InFiles *int `json:"inFiles,omitempty"`
	Asked   int  `json:"asked,omitempty"`
	// WaitsFor are pods that keep a step from its end.
	WaitsFor []holder `json:"waitsFor,omitempty"`
	// Since is when the step or the state began.
	Since time.Time `json:"since,omitzero"`
	// Pause is how long each step lasts, in seconds.
	Pause  float64 `json:"pauseSeconds"`
	Group  string  `json:"group,omitempty"`
	Reason string  `json:"reason,omitempty"`
	// Candidate and Stable are digests. They are equal if all pods have what the object has.
	Candidate string          `json:"candidate"`
	Digest    string          `json:"stable,omitempty"`
	History   []release.Entry `json:"history,omitempty"`

	shown []pod
	// unasked are the drivers that could not be asked.
	unasked  []nodes.Unasked
	settings settings.Settings
	labels   map[string]string
}

func (p pair) view(pods []pod) view {
	s, mistakes := settings.Parse(p.Source.Annotation)
	v := view{
		Object: release.NameOf(p.Source.Ref), Namespace: p.Source.Ref.Namespace, State: stateNew, Steps: len(s.Steps),
		Pause: s.Pause.Seconds(),
		Group: s.Group, Candidate: p.Source.Digest, settings: s, labels: p.Source.Labels,
	}
	var e release.Exposure
	if p.Copy != nil {
		v.Digest = p.Copy.Digest
		v.History, _ = release.ParseHistory(p.Copy.Annotations[release.HistoryAnnotation])
		v.State = stateStable
		if e = p.Copy.Exposure(); v.Digest != v.Candidate {
			v.State = stateWaiting
			if e.Digest == v.Candidate {
				v.State, v.Step, v.Since, v.Reason = viewState(e.State), e.Step, e.Since, e.Reason
			}
		}
	}
	for _, pod := range pods {
		if !pod.uses(p.Source.Ref, p.Source.Labels) {
			continue
		}
		v.Pods++
		if p.Copy == nil && !p.IsTaken || v.Digest == v.Candidate || e.Shows(pod.uid, v.Candidate) {
			v.shown = append(v.shown, pod)
		}
	}
	v.Shown = len(v.shown)
	if p.Copy != nil && v.Digest != v.Candidate {
		v.Ready = new(countReady(v.shown))
	}
	switch {
	case len(mistakes) > 0:
		v.State, v.Reason = stateMistaken, mistakes[0].String()
	case p.IsTaken:
		v.State, v.Reason = stateMistaken, taken(p.Source.Ref)
	}
	return v
}

// disagree marks objects whose settings are not those of the one that decides about their group,
// as far as the objects of a group are among those that are shown.
func disagree(pairs []pair, views []view) {
	decides := map[string]int{}
	for i, p := range pairs {
		if views[i].Group == "" || views[i].State == stateMistaken || p.Copy == nil {
			continue
		}
		key := views[i].Namespace + "/" + views[i].Group
		if first, isKnown := decides[key]; !isKnown || p.Copy.CreatedAt.Before(pairs[first].Copy.CreatedAt) {
			decides[key] = i
		}
	}
	for i, v := range views {
		first, isKnown := decides[v.Namespace+"/"+v.Group]
		if !isKnown || v.State == stateMistaken || v.settings.SameSteps(views[first].settings) {
			continue
		}
		views[i].State, views[i].Reason = stateMistaken, v.settings.Disagreement(views[first].Object)
	}
}
