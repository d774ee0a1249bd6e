package status

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/printing"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/versions"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/state"
)

type workloadStatus struct {
	// Workload is such as deployments/web.
	Workload  string `json:"workload"`
	Namespace string `json:"namespace"`
	// Running are the pods that count, and Pending those that do not run yet.
	Running int            `json:"running"`
	Pending int            `json:"pending"`
	Sources []sourceStatus `json:"sources"`
	// Rollout is the state of the rollout of the config; nil where nothing triggers rollouts.
	Rollout *state.State `json:"rollout,omitempty"`
	// LeftInTree are the volumes that the API server has not converted, with the reasons.
	LeftInTree []string `json:"leftInTree,omitempty"`
}

type sourceStatus struct {
	// Volume is empty for an object that triggers rollouts and that no volume of liveconfig shows.
	Volume    string   `json:"volume,omitempty"`
	Kind      api.Kind `json:"kind"`
	Namespace string   `json:"namespace"`
	Name      string   `json:"name"`
	// Version is what the API has: the resource version, or the name of the copy for an object that
	// triggers rollouts. It is empty for an object that does not exist.
	Version string `json:"version,omitempty"`
	states

	Note string      `json:"note,omitempty"`
	Pods []podStatus `json:"pods"`
}

// states are how many pods are in each state.
type states struct {
	Current int `json:"current"`
	Lagging int `json:"lagging"`
	Unknown int `json:"unknown"`
}

func (c *states) count(state versions.State) {
	switch state {
	case versions.Current:
		c.Current++
	case versions.Lagging:
		c.Lagging++
	case versions.Unknown:
		c.Unknown++
	}
}

type podStatus struct {
	Pod  string `json:"pod"`
	Node string `json:"node"`
	// Driver is the version of the node's driver; empty if that is not known.
	Driver string         `json:"driver,omitempty"`
	State  versions.State `json:"state"`
	Has    string         `json:"has,omitempty"`
	Since  time.Time      `json:"since,omitzero"`
	Why    string         `json:"why,omitempty"`
}

func (s *sourceStatus) add(p podStatus) {
	s.count(p.State)
	s.Pods = append(s.Pods, p)
}

// object is how an object is named in the namespace of a workload.
func (s *sourceStatus) object(from string) string {
	return api.Ref{Kind: s.Kind, Namespace: s.Namespace, Name: s.Name}.SeenFrom(from)
}

// summary returns how many pods are current, and how many others do not run yet.
func (s *sourceStatus) summary(pending int) string {
	text := fmt.Sprintf("%d of %d", s.Current, len(s.Pods))
	if s.Unknown > 0 {
		text += fmt.Sprintf(", %d unknown", s.Unknown)
	}
	if pending > 0 {
		text += fmt.Sprintf(", %d pending", pending)
	}
	return text
}

const mostRows = 20

// table prints statuses for people. Pods that are current are left out, unless wide is set.
type table struct {
	wide bool
	now  time.Time
	// inNamespaces gives the names of pods their namespaces.
	inNamespaces bool
}

func (t table) write(to io.Writer, all []workloadStatus) error {
	return writeTables(to, sources(all), rollouts(all), left(all), t.pods(all))
}

// writeTables prints tables below each other, of which those without rows are left out.
func writeTables(to io.Writer, tables ...[][]string) error {
	for i, rows := range tables {
		if i > 0 && len(rows) == 0 {
			continue
		}
		if i > 0 {
			_, _ = fmt.Fprintln(to) // The table returns the error.
		}
		for _, row := range rows {
			for j, cell := range row {
				row[j] = cmp.Or(strings.NewReplacer("\n", " ", "\t", " ").Replace(cell), "-")
			}
		}
		if err := printing.Table(to, 3, rows); err != nil {
			return err
		}
	}
	return nil
}

func sources(all []workloadStatus) [][]string {
	rows := [][]string{{"WORKLOAD", "VOLUME", "SOURCE", "VERSION", "CURRENT"}}
	for _, w := range all {
		for _, s := range w.Sources {
			rows = append(rows, []string{w.Workload, s.Volume, s.object(w.Namespace), s.Version, s.summary(w.Pending)})
		}
	}
	return rows
}

func rollouts(all []workloadStatus) [][]string {
	var rows [][]string
	for _, w := range all {
		if w.Rollout != nil && w.Rollout.Name != state.Done {
			rows = append(rows, []string{w.Workload, string(w.Rollout.Name), w.Rollout.Why})
		}
	}
	return titled(rows, "WORKLOAD", "ROLLOUT", "WHY")
}

// left returns the volumes about which status knows nothing, as they are not of liveconfig.
func left(all []workloadStatus) [][]string {
	var rows [][]string
	for _, w := range all {
		for _, volume := range w.LeftInTree {
			rows = append(rows, []string{w.Workload, volume})
		}
	}
	return titled(rows, "WORKLOAD", "LEFT IN TREE")
}

func titled(rows [][]string, titles ...string) [][]string {
	if len(rows) == 0 {
		return nil
	}
	return slices.Insert(rows, 0, titles)
}

func (t table) pods(all []workloadStatus) [][]string {
	var rows [][]string
	for _, w := range all {
		for _, s := range w.Sources {
			for _, p := range s.Pods {
				if p.State != versions.Current || t.wide {
					rows = append(rows, t.pod(w, s, p))
				}
			}
		}
	}
	return titled(t.limited(rows), "POD", "NODE", "VOLUME", "SOURCE", "HAS", "SINCE", "WHY")
}

func (t table) limited(rows [][]string) [][]string {
	if more := len(rows) - mostRows; more > 0 && !t.wide {
		rows = append(rows[:mostRows], []string{fmt.Sprintf("and %d more: -o wide shows all", more)})
	}
	return rows
}

func (t table) pod(w workloadStatus, s sourceStatus, p podStatus) []string {
	name, since, why := p.Pod, "", p.Why
	if t.inNamespaces {
		name = w.Namespace + "/" + name
	}
	switch {
	case p.State == versions.Current:
		why = "current"
	case !p.Since.IsZero():
		since = duration.HumanDuration(t.now.Sub(p.Since))
	}
	return []string{name, p.Node, s.Volume, s.object(w.Namespace), p.Has, since, why}
}
