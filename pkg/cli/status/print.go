package status

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/printing"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/versions"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/state"
)

// workloadStatus is the status of one workload.
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
}

// sourceStatus is the status of one object in one volume.
type sourceStatus struct {
	// Volume is empty for an object that triggers rollouts and that no volume of liveconfig shows.
	Volume    string   `json:"volume,omitempty"`
	Kind      api.Kind `json:"kind"`
	Namespace string   `json:"namespace"`
	Name      string   `json:"name"`
	// Version is what the API has: the resource version, or the name of the copy for an object that
	// triggers rollouts. It is empty for an object that does not exist.
	Version string      `json:"version,omitempty"`
	Current int         `json:"current"`
	Lagging int         `json:"lagging"`
	Unknown int         `json:"unknown"`
	Note    string      `json:"note,omitempty"`
	Pods    []podStatus `json:"pods"`
}

// podStatus is the status of one object in one volume of one pod.
type podStatus struct {
	Pod   string         `json:"pod"`
	Node  string         `json:"node"`
	State versions.State `json:"state"`
	Has   string         `json:"has,omitempty"`
	Since time.Time      `json:"since,omitzero"`
	Why   string         `json:"why,omitempty"`
}

func (s *sourceStatus) add(p podStatus) {
	switch p.State {
	case versions.Current:
		s.Current++
	case versions.Lagging:
		s.Lagging++
	case versions.Unknown:
		s.Unknown++
	}
	s.Pods = append(s.Pods, p)
}

// object is how an object is named in the namespace of a workload.
func (s *sourceStatus) object(from string) string {
	name := s.Kind.Resource() + "/" + s.Name
	if s.Namespace != from {
		name += " in " + s.Namespace
	}
	return name
}

// count returns how many pods are current, and how many others do not run yet.
func (s *sourceStatus) count(pending int) string {
	text := fmt.Sprintf("%d of %d", s.Current, len(s.Pods))
	if s.Unknown > 0 {
		text += fmt.Sprintf(", %d unknown", s.Unknown)
	}
	if pending > 0 {
		text += fmt.Sprintf(", %d pending", pending)
	}
	return text
}

// mostRows is how many pods are shown unless all are asked for.
const mostRows = 20

// table prints statuses for people. Pods that are current are left out, unless wide is set.
type table struct {
	*tabwriter.Writer

	wide bool
	now  time.Time
	left int
}

func (t *table) print(all []workloadStatus) error {
	t.row("WORKLOAD", "VOLUME", "SOURCE", "VERSION", "CURRENT")
	for _, w := range all {
		for _, s := range w.Sources {
			t.row(w.Workload, s.Volume, s.object(w.Namespace), s.Version, s.count(w.Pending))
		}
	}
	t.rollouts(all)
	t.left = mostRows
	header := false
	for _, w := range all {
		for _, s := range w.Sources {
			for _, p := range s.Pods {
				if p.State == versions.Current && !t.wide {
					continue
				}
				if !header {
					_ = t.Flush() // The columns of another table. An error comes again.
					t.line()
					t.row("POD", "NODE", "VOLUME", "SOURCE", "HAS", "SINCE", "WHY")
					header = true
				}
				t.pod(w, s, p)
			}
		}
	}
	if t.left < 0 {
		t.row(fmt.Sprintf("and %d more: -o wide shows all", -t.left))
	}
	return t.Flush()
}

// rollouts prints the states of rollouts that are not done.
func (t *table) rollouts(all []workloadStatus) {
	header := false
	for _, w := range all {
		if w.Rollout == nil || w.Rollout.Name == state.Done {
			continue
		}
		if !header {
			_ = t.Flush() // As below.
			t.line()
			t.row("WORKLOAD", "ROLLOUT", "WHY")
			header = true
		}
		t.row(w.Workload, string(w.Rollout.Name), w.Rollout.Why)
	}
}

func (t *table) pod(w workloadStatus, s sourceStatus, p podStatus) {
	t.left--
	if t.left < 0 && !t.wide {
		return
	}
	since := ""
	if !p.Since.IsZero() {
		since = duration.HumanDuration(t.now.Sub(p.Since))
	}
	why := p.Why
	if p.State == versions.Current {
		since, why = "", "current"
	}
	t.row(p.Pod, p.Node, s.Volume, s.object(w.Namespace), p.Has, since, why)
}

// row prints cells, of which the last is not padded.
func (t *table) row(cells ...string) {
	for i, cell := range cells {
		cells[i] = cmp.Or(strings.NewReplacer("\n", " ", "\t", " ").Replace(printing.Plain(cell)), "-")
	}
	_, _ = fmt.Fprintln(t, strings.Join(cells, "\t")) // Flush returns the error.
}

func (t *table) line() { _, _ = fmt.Fprintln(t) }

func newTable(out io.Writer, now time.Time) *table {
	return &table{Writer: tabwriter.NewWriter(out, 0, 8, 3, ' ', 0), now: now}
}
