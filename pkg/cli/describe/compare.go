package describe

import (
	"slices"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/api/statusz"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/observe"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/versions"
	"github.com/liveconfig-csi/liveconfig/pkg/release"
)

// fill adds the report of its node to a pod; nil stands for none. The places are where the pod
// shows objects, and facts are about those objects.
func fill(pod *Pod, report *statusz.Report, places []versions.Place, facts map[api.Ref]observe.Found) {
	pod.State = versions.Current
	judged := versions.Pod{UID: pod.UID, Report: report}
	for i := range pod.Volumes {
		v := &pod.Volumes[i]
		v.Sources = []PodSource{}
		r := report.Volume(pod.UID, v.Name)
		if r == nil {
			pod.State = versions.Unknown
			continue
		}
		v.Reported, v.State, v.Digest, v.Bytes = true, r.State, r.Digest, r.Bytes
		v.ProjectedAt, v.CheckedAt, v.Problem = r.ProjectedAt, r.CheckedAt, r.Problem
	}
	for _, at := range places {
		s := sourceIn(at, report.Volume(pod.UID, at.Volume))
		verdict := judged.Judge(at, facts[at.Object].Now)
		s.State, s.Why, s.Since = verdict.State, verdict.Why, verdict.Since
		if s.State == versions.Unknown && at.Volume != "" && pod.NotAsked != "" {
			s.Why = pod.NotAsked
		}
		pod.State = versions.Worst(pod.State, s.State)
		i := slices.IndexFunc(pod.Volumes, func(v PodVolume) bool { return v.Name == at.Volume })
		if i < 0 {
			pod.Elsewhere = append(pod.Elsewhere, s)
			continue
		}
		pod.Volumes[i].Sources = append(pod.Volumes[i].Sources, s)
	}
}

func sourceIn(at versions.Place, reported *statusz.Volume) PodSource {
	next := PodSource{Object: at.Names}
	if at.IsCopy() {
		next.CopyOf = release.NameOf(at.Object)
	}
	if reported == nil {
		return next
	}
	for _, s := range reported.Sources {
		if versions.RefOf(s) == at.Names {
			next.Projected, next.Known, next.KnownAt = s.Projected, s.Known, s.ChangedAt
			next.Polled, next.Revoked, next.Error, next.ReadBy = s.Polled, s.Revoked, s.Error, s.ReadBy
		}
	}
	return next
}

// sources returns all of a pod: those of its volumes, and elsewhere.
func (p *Pod) sources() []*PodSource {
	var all []*PodSource
	for i := range p.Elsewhere {
		all = append(all, &p.Elsewhere[i])
	}
	for _, v := range p.Volumes {
		for i := range v.Sources {
			all = append(all, &v.Sources[i])
		}
	}
	return all
}

// explain sets the reason of copies that the template names and that are not the newest: no
// revision has a newer one yet.
func (p *Pod) explain(template []versions.Place, why string) {
	for _, s := range p.sources() {
		isIt := func(at versions.Place) bool { return at.IsCopy() && at.Names == s.Object }
		if s.State == versions.Lagging && s.CopyOf != "" && slices.ContainsFunc(template, isIt) {
			s.Why = why
		}
	}
}

// objectOf returns an object of volumes, and counts its pods by the state of their files. A pod
// that has the object in several volumes counts once, with the worst state.
func objectOf(ref api.Ref, fact observe.Found, pods []Pod) Object {
	o := Object{
		Ref: ref, Exists: fact.Version != nil, Version: fact.Version, ChangedAt: fact.ChangedAt,
		Pods: map[versions.State]int{},
	}
	if fact.Err != nil {
		o.Unread = fact.Err.Error()
	}
	if len(fact.Copies) > 0 {
		o.Copy = fact.Copies[len(fact.Copies)-1]
	}
	for _, pod := range pods {
		var states []versions.State
		for _, s := range pod.sources() {
			isCopy := s.CopyOf == release.NameOf(ref) && s.Object.Namespace == ref.Namespace
			if s.Object == o.Ref || isCopy {
				states = append(states, s.State)
			}
		}
		if len(states) > 0 {
			o.Pods[versions.Worst(states...)]++
		}
	}
	return o
}
