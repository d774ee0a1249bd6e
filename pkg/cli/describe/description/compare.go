package description

import (
	"slices"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/api/statusz"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/versions"
)

// Fact is the state of an object in the API.
type Fact struct {
	versions.Now

	// Unread is why the object could not be read; empty if it was. The state comes from the nodes
	// and the workload then.
	Unread string
}

// Fill adds the report of its node to a pod; nil stands for none. The places are where the pod
// shows objects, and facts are about those objects.
func Fill(pod *Pod, report *statusz.Report, places []versions.Place, facts map[api.Ref]Fact) {
	pod.State = versions.Current
	judged := versions.Pod{Name: pod.Name, UID: pod.UID, Node: pod.Node, Report: report}
	for i := range pod.Volumes {
		pod.Volumes[i].fill(reportOf(*pod, pod.Volumes[i].Name, report))
		if !pod.Volumes[i].Reported {
			pod.State = versions.Unknown
		}
	}
	for _, at := range places {
		s := sourceIn(at, reportOf(*pod, at.Volume, report))
		s.judge(judged, at, facts[at.Object])
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

// reportOf returns what a node reports of a volume of a pod; nil for nothing.
func reportOf(pod Pod, volume string, report *statusz.Report) *statusz.Volume {
	if report == nil {
		return nil
	}
	i := slices.IndexFunc(report.Volumes, func(v statusz.Volume) bool { return v.Pod.UID == pod.UID && v.Name == volume })
	if i < 0 {
		return nil
	}
	return &report.Volumes[i]
}

// fill takes over what is reported of the whole volume.
func (v *PodVolume) fill(r *statusz.Volume) {
	v.Sources = []PodSource{}
	if r == nil {
		return
	}
	v.Reported, v.State, v.Digest, v.Bytes = true, r.State, r.Digest, r.Bytes
	v.ProjectedAt, v.CheckedAt, v.Problem = r.ProjectedAt, r.CheckedAt, r.Problem
}

// sourceIn returns what is reported of an object in a volume.
func sourceIn(at versions.Place, reported *statusz.Volume) PodSource {
	next := PodSource{Object: RefOf(at.Names)}
	if at.IsCopy() {
		next.CopyOf = RefOf(at.Object).in(at.Object.Namespace)
	}
	if reported == nil {
		return next
	}
	for _, s := range reported.Sources {
		if (api.Ref{Kind: api.Kind(s.Kind), Namespace: s.Namespace, Name: s.Name}) == at.Names {
			next.Projected, next.Known, next.KnownAt = s.Projected, s.Known, s.ChangedAt
			next.Polled, next.Revoked, next.Error = s.Polled, s.Revoked, s.Error
		}
	}
	return next
}

// judge compares the version in the files with the newest.
func (s *PodSource) judge(pod versions.Pod, at versions.Place, fact Fact) {
	verdict := pod.Judge(at, fact.Now)
	s.State, s.Why, s.Since = verdict.State, verdict.Why, verdict.Since
}

// Explain sets the reason of copies that the template names and that are not the newest: no
// revision has a newer one yet.
func (p *Pod) Explain(template []versions.Place, why string) {
	isOfTemplate := func(s PodSource) bool {
		return slices.ContainsFunc(template, func(at versions.Place) bool { return at.IsCopy() && RefOf(at.Names) == s.Object })
	}
	explain := func(sources []PodSource) {
		for i := range sources {
			if s := &sources[i]; s.State == versions.Lagging && s.CopyOf != "" && isOfTemplate(*s) {
				s.Why = why
			}
		}
	}
	explain(p.Elsewhere)
	for i := range p.Volumes {
		explain(p.Volumes[i].Sources)
	}
}

// ObjectOf returns an object of volumes, with the pods that have it counted by how their files are.
// A pod that has it several times counts by the worst.
func ObjectOf(ref api.Ref, fact Fact, pods []Pod) Object {
	o := Object{
		Ref: RefOf(ref), Unread: fact.Unread, Exists: fact.Version != nil, Version: fact.Version, ChangedAt: fact.ChangedAt,
		Pods: map[versions.State]int{},
	}
	if len(fact.Copies) > 0 {
		o.Copy = fact.Copies[len(fact.Copies)-1]
	}
	for _, pod := range pods {
		if state, found := pod.stateOf(o.Ref); found {
			o.Pods[state]++
		}
	}
	return o
}

// stateOf returns how the files are that come from an object or its copies.
func (p Pod) stateOf(ref Ref) (state versions.State, found bool) {
	state = versions.Current
	all := p.Elsewhere
	for _, v := range p.Volumes {
		all = slices.Concat(all, v.Sources)
	}
	for _, s := range all {
		isCopy := s.CopyOf == ref.in(ref.Namespace) && s.Object.Namespace == ref.Namespace
		if s.Object == ref || isCopy {
			state, found = versions.Worst(state, s.State), true
		}
	}
	return state, found
}

// ago is how long a time is in the past; of one that is in the future, by another's clock, it is
// nothing.
func ago(now, t time.Time) time.Duration { return max(0, now.Sub(t)) }
