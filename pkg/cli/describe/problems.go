package describe

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/api/statusz"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/versions"
)

// Problems are what is wrong with the volumes of many pods.
type Problems struct {
	// Looked is how many pods were looked at, and Pods how many of them have volumes of liveconfig
	// or copies. NotAsked is how many of those are on nodes that did not answer.
	Looked   int `json:"looked"`
	Pods     int `json:"pods"`
	NotAsked int `json:"notAsked"`
	// NotKnown is how many others have a source of which it is not known whether the pod has the
	// newest version.
	NotKnown int `json:"notKnown"`

	Problems []Problem `json:"problems"`
	// Unknown is what could not be found out.
	Unknown []Unknown `json:"unknown"`
	// MissingRoles are the manifests of Roles that pods lack, each once.
	MissingRoles missing `json:"missingRoles,omitempty"`
}

// Problem is one reason why a volume of a pod is not as it should be.
type Problem struct {
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`
	Node      string `json:"node,omitempty"`
	// Volume is empty for a copy that Kubernetes' own volumes and variables have.
	Volume string `json:"volume,omitempty"`
	Reason string `json:"reason"`
	// Since is zero if it is not known.
	Since time.Time `json:"since,omitzero"`
}

// add adds what is wrong with a pod. A pod whose volumes are not mounted waits since it was
// created; the kubelet may have reported why, by the names of volumes.
func (x *Problems) add(namespace string, pod Pod, created time.Time, mounts map[string]string) {
	found, unknown := problemsOf("", pod.Elsewhere), hasUnknown(pod.Elsewhere)
	for _, v := range pod.Volumes {
		isMounted, why := v.Reported && v.State != statusz.Publishing, ""
		switch {
		case pod.NotAsked == "" && isMounted: // The report of the node is newer.
		case pod.Node != "" && mounts[v.Name] != "":
			why = "not mounted: " + mounts[v.Name]
		default:
			why = strings.Join(v.Mistakes, "; ")
		}
		switch {
		case why != "":
			found = append(found, Problem{Volume: v.Name, Reason: why, Since: created})
		case pod.NotAsked == "":
			found = append(found, v.problems()...)
			unknown = unknown || hasUnknown(v.Sources)
		}
	}
	x.Pods++
	x.MissingRoles.add(pod)
	switch {
	case len(pod.Volumes) > 0 && pod.Node != "" && pod.NotAsked != "":
		x.NotAsked++
	case unknown:
		x.NotKnown++
	}
	for _, p := range found {
		p.Namespace, p.Pod, p.Node = namespace, pod.Name, pod.Node
		x.Problems = append(x.Problems, p)
	}
}

func (v PodVolume) problems() []Problem {
	var found []Problem
	if v.Problem != nil {
		found = append(found, Problem{
			Volume: v.Name, Reason: v.Problem.Kind + ": " + v.Problem.Message, Since: v.Problem.Since,
		})
	}
	for _, p := range problemsOf(v.Name, v.Sources) {
		if v.Problem == nil || !strings.HasSuffix(p.Reason, ": "+v.Problem.Message) {
			found = append(found, p)
		}
	}
	return found
}

func hasUnknown(sources []PodSource) bool {
	return slices.ContainsFunc(sources, func(s PodSource) bool { return s.State == versions.Unknown })
}

// problemsOf returns why sources lag: those for one reason together.
func problemsOf(volume string, sources []PodSource) []Problem {
	var whys []string
	objects, since := map[string][]string{}, map[string]time.Time{}
	for _, s := range sources {
		if s.State != versions.Lagging {
			continue
		}
		if !slices.Contains(whys, s.Why) {
			whys, since[s.Why] = append(whys, s.Why), s.Since
		}
		objects[s.Why] = append(objects[s.Why], nameIn(s.Object.Namespace, s.Object))
	}
	var found []Problem
	for _, why := range whys {
		found = append(found, Problem{
			Volume: volume, Reason: strings.Join(objects[why], ", ") + ": " + why, Since: since[why],
		})
	}
	return found
}

func (p *page) printProblems(all Problems) string {
	p.missing = all.MissingRoles
	if len(all.Problems) > 0 {
		p.table(0, p.problems(all.Problems))
		p.text.WriteString("\n")
	}
	p.line(0, "%s", all.summary())
	if len(all.Unknown) > 0 {
		p.text.WriteString("\n")
	}
	p.unknown(all.Unknown)
	p.missingRoles()
	return p.text.String()
}

// problems returns the rows of a table that names each pod once: the next rows of a pod have only
// what differs.
func (p *page) problems(list []Problem) [][]string {
	rows := [][]string{{"POD", "NODE", "VOLUME", "SINCE", "REASON"}}
	list = merged(list)
	for i, r := range list {
		since := "-"
		if !r.Since.IsZero() {
			since = p.age(r.Since)
		}
		pod, node := r.Namespace+"/"+r.Pod, cmp.Or(r.Node, "-")
		if i > 0 && list[i-1].isOfSamePod(r) {
			pod, node = "", ""
		}
		reason := strings.Join(strings.Fields(p.missing.without(r.Reason)), " ") // Some have several lines.
		rows = append(rows, []string{pod, node, cmp.Or(r.Volume, "-"), since, reason})
	}
	return rows
}

func (r Problem) isOfSamePod(other Problem) bool {
	return r.Namespace == other.Namespace && r.Pod == other.Pod
}

// merged returns the problems with one for volumes of a pod that have the same problem.
func merged(list []Problem) []Problem {
	var all []Problem
	for _, r := range list {
		same := slices.IndexFunc(all, func(other Problem) bool {
			return r.isOfSamePod(other) && r.Reason == other.Reason && r.Volume != "" && other.Volume != ""
		})
		if same < 0 {
			all = append(all, r)
			continue
		}
		all[same].Volume += ", " + r.Volume
	}
	return all
}

func (x *Problems) summary() string {
	bad := map[string]bool{}
	for _, p := range x.Problems {
		bad[p.Namespace+"/"+p.Pod] = true
	}
	text := fmt.Sprintf("%d of %d pods with volumes of liveconfig have problems", len(bad), x.Pods)
	if len(bad) == 0 {
		text = fmt.Sprintf("No problems in %d pods with volumes of liveconfig", x.Pods-x.NotAsked-x.NotKnown)
	}
	text += fmt.Sprintf("; %d pods looked at", x.Looked)
	if x.NotAsked > 0 {
		text += fmt.Sprintf("; %d pods are on nodes that did not answer", x.NotAsked)
	}
	if x.NotKnown > 0 {
		text += fmt.Sprintf("; of %d pods it is not known whether they are current", x.NotKnown)
	}
	return text
}
