package describe

import (
	"fmt"
	"slices"
	"strings"

	"github.com/liveconfig-csi/liveconfig/pkg/api/statusz"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/versions"
)

func others(d Description) [][]string {
	sources := map[string]string{}
	if d.Rollout != nil {
		for _, c := range d.Rollout.Copies {
			sources[c.Copy] = c.Of
		}
	}
	rows := [][]string{{"OBJECT", "OPTIONAL", "USED AS", "AN EDIT ARRIVES"}}
	for _, u := range d.Others {
		object, arrives := u.Object, arrival(u)
		if of := sources[u.Object]; of != "" {
			object, arrives = object+", a copy of "+of, "as a rollout"
		}
		rows = append(rows, []string{object, fmt.Sprint(u.Optional), place(u), arrives})
	}
	return rows
}

func place(u Use) string {
	switch u.Way {
	case AsVariable:
		return "variable " + u.Variable + " of " + u.Container
	case AsVariables:
		if u.Prefix != "" {
			return "variables " + u.Prefix + "* of " + u.Container
		}
		return "variables of " + u.Container
	case ToPull:
		return "imagePullSecrets"
	case ToMount:
		return "credentials of " + u.Type + " volume " + u.Volume
	case AsVolume:
	}
	mounts := make([]string, len(u.Mounts))
	for i, m := range u.Mounts {
		mounts[i] = mount(m)
	}
	text := u.Type + " volume " + u.Volume
	if len(mounts) > 0 {
		text += ": " + strings.Join(mounts, "; ")
	}
	return text
}

// arrival returns when pods notice an edit of what is not liveconfig's.
func arrival(u Use) string {
	switch u.Way {
	case AsVariable, AsVariables:
		return "when the container restarts"
	case ToPull:
		return "with the next pull of an image"
	case ToMount:
		return "with the next mount"
	case AsVolume:
	}
	const soon = "when the kubelet next looks, in about a minute"
	isPart := func(m Mount) bool { return m.SubPath != "" }
	isWhole := func(m Mount) bool { return m.SubPath == "" }
	switch {
	case !slices.ContainsFunc(u.Mounts, isPart):
		return soon
	case !slices.ContainsFunc(u.Mounts, isWhole):
		return "never: subPath"
	default:
		return soon + "; in subPath mounts never"
	}
}

func (p *page) pods(d Description) {
	hasFiles := func(pod Pod) bool { return len(pod.Volumes)+len(pod.Elsewhere)+len(pod.Reloaders) > 0 }
	switch {
	case len(d.Pods) == 0:
		p.line(0, "Pods: none")
		return
	case !slices.ContainsFunc(d.Pods, hasFiles):
		p.line(0, "Pods: %d, without volumes of liveconfig", len(d.Pods))
		return
	}
	counts := map[versions.State]int{}
	for _, pod := range d.Pods {
		counts[pod.State]++
	}
	p.line(0, "Pods: %s", tally(counts))
	p.reloads(d.Pods)
	shown, left := p.selected(d.Pods)
	for _, pod := range shown {
		p.pod(d, pod)
	}
	if left > 0 {
		p.line(1, "and %d more %s: see -o wide", left, notFine(d.Pods))
	}
}

// notFine returns what is wrong with the pods that are shown.
func notFine(pods []Pod) string {
	if slices.ContainsFunc(pods, Pod.hasFailedReload) {
		return "that are not current, or whose reload failed"
	}
	return "that are not current"
}

// selected returns the pods to show, the worst first, and how many there are beside those.
func (p *page) selected(pods []Pod) (shown []Pod, left int) {
	if p.mostPods == 0 || len(pods) == 1 {
		return pods, 0
	}
	for _, state := range slices.Backward(versions.States()) {
		for _, pod := range pods {
			if pod.State == state && (state != versions.Current || pod.hasFailedReload()) {
				shown = append(shown, pod)
			}
		}
	}
	most := min(len(shown), p.mostPods)
	return shown[:most], len(shown) - most
}

func (p *page) pod(d Description, pod Pod) {
	where := "on no node yet"
	if pod.Node != "" {
		where = "on node " + pod.Node
	}
	p.line(1, "%s, %s %s: %s", pod.Name, strings.ToLower(pod.Phase), where, strings.ToLower(string(pod.State)))
	if pod.NotAsked != "" {
		p.line(2, "%s", pod.NotAsked)
		pod.Volumes = nil // Nothing is known of them.
	}
	for _, v := range pod.Volumes {
		p.podVolume(d.Namespace, v)
	}
	for _, r := range pod.Reloaders {
		p.reloader(r)
	}
	if len(pod.Elsewhere) > 0 {
		p.line(2, "variables and volumes of Kubernetes:")
	}
	for _, s := range pod.Elsewhere {
		p.source(called(s.Object, s.CopyOf, d.Namespace), s, []string{strings.ToLower(string(s.State))})
	}
}

func (p *page) source(name string, s PodSource, facts []string) {
	p.line(3, "%s: %s", name, strings.Join(facts, ", "))
	if s.Why != "" {
		p.line(4, "Why: %s", indented(p.missing.without(s.Why), 4))
	}
	if s.Error != "" && s.Error != s.Why {
		p.line(4, "Error: %s", indented(p.missing.without(s.Error), 4))
	}
}

func (p *page) podVolume(namespace string, v PodVolume) {
	if !v.Reported {
		p.line(2, "%s: the node has no such volume of the pod, or not yet", v.Name)
		return
	}
	p.line(2, "%s: %s", v.Name, strings.Join(p.facts(v), ", "))
	for _, s := range v.Sources {
		p.source(called(s.Object, s.CopyOf, namespace), s, p.versions(s))
	}
	if v.Problem != nil {
		since := ""
		if !v.Problem.Since.IsZero() {
			since = ", for " + p.age(v.Problem.Since)
		}
		p.line(3, "Problem (%s%s): %s", v.Problem.Kind, since, indented(p.missing.without(v.Problem.Message), 3))
	}
}

func (p *page) facts(v PodVolume) []string {
	list := []string{string(v.State)}
	if v.State == statusz.Publishing {
		return list
	}
	written := "files last written before the driver's start"
	if !v.ProjectedAt.IsZero() {
		written = "files written " + p.age(v.ProjectedAt) + " ago"
	}
	list = append(list, written)
	if !v.CheckedAt.IsZero() {
		list = append(list, "checked "+p.age(v.CheckedAt)+" ago")
	}
	list = append(list, fmt.Sprintf("%d bytes", v.Bytes))
	if v.Digest != "" {
		list = append(list, "digest "+v.Digest)
	}
	return list
}

// versions returns which version of an object is in the files, and how far behind that is.
func (p *page) versions(s PodSource) []string {
	list := []string{"not in the files", strings.ToLower(string(s.State))}
	if s.Projected != nil {
		list[0] = "version " + s.Projected.ResourceVersion
	}
	if s.State == versions.Lagging && !s.Since.IsZero() {
		list[1] += " for " + p.age(s.Since)
	}
	switch {
	case s.Known != nil && (s.Projected == nil || *s.Known != *s.Projected):
		list = append(list, "the node knows version "+s.Known.ResourceVersion)
	case s.Known == nil && s.Projected != nil:
		list = append(list, "the node finds no such object")
	}
	if s.Known != nil && !s.KnownAt.IsZero() {
		list = append(list, "heard of "+p.age(s.KnownAt)+" ago")
	}
	if s.Polled {
		list = append(list, "polled and not watched")
	}
	if s.Revoked {
		list = append(list, "may not be read any more")
	}
	return list
}

// indented returns a text of several lines, such as a manifest to apply, as it is to stand on a
// level.
func indented(text string, level int) lines {
	return lines(strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n"+strings.Repeat("  ", level+1)))
}
