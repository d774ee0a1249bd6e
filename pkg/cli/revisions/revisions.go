// Package revisions describes the config of each revision of a workload, which revision is current
// and which was undone, and how two revisions differ.
//
// It does not know the API server, what objects hold, or how anything is printed.
package revisions

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/reloader"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/template"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/trigger"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/workload"
)

const changeCause = "kubernetes.io/change-cause"

// Revision is a revision of a workload.
type Revision struct {
	workload.Revision

	// Created is when the first revision of this template was created. An undo gives the template
	// another number and not another time.
	Created time.Time
	// Cause is the reason that people have given.
	Cause string
	// Annotations are those of the object that stores the revision. A Deployment's have the
	// workload's among them.
	Annotations map[string]string
	// Data is the patch of which a ControllerRevision consists; nil for a ReplicaSet.
	Data []byte
	// Config is the annotation of the template; nil if it has none, or if it cannot be read: then
	// Problem is set.
	Config  trigger.Config
	Problem error
	// Items are what pods use of what triggers, by source.
	Items []Item
	// Current is true if the workload has this template now, Undone if it was taken back.
	Current, Undone bool
}

// Item is what the pods of a revision use of one object that triggers rollouts. It is comparable.
type Item struct {
	Source api.Ref
	// Copy is the name of the copy. It is empty where pods use the source itself, or where that did
	// not exist.
	Copy string
	// Absent is true if the source did not exist and is not required.
	Absent bool
	// Unused is the version of a source that triggers rollouts and that the pods do not use. Its
	// content is not stored.
	Unused string
}

// IsSource reports whether the pods use the source itself, whatever that holds.
func (i Item) IsSource() bool { return i.Copy == "" && !i.Absent && i.Unused == "" }

// Used returns what the pods use: the copy or the source.
func (i Item) Used() api.Ref {
	return i.Source.Named(cmp.Or(i.Copy, i.Source.Name))
}

// History is a workload with its revisions.
type History struct {
	Workload workload.Workload
	// OptedIn is true if anything triggers the workload. Triggers are what does.
	OptedIn  bool
	Triggers []api.Ref
	// Mark describes what was rolled out last.
	Mark trigger.Mark
	// Revisions have the oldest first.
	Revisions []Revision
}

// OfDeployment returns the history of a Deployment, whose revisions are among the ReplicaSets.
// Driver is the name that the CSI driver is installed under.
func OfDeployment(w workload.Workload, sets []appsv1.ReplicaSet, driver string) History {
	h := newHistory(w)
	for i := range sets {
		h.add(&sets[i].ObjectMeta, workload.OfReplicaSet(&sets[i]), nil, driver)
	}
	return h.complete()
}

// OfOther returns the history of a StatefulSet or DaemonSet, whose revisions are among the
// ControllerRevisions.
func OfOther(w workload.Workload, all []appsv1.ControllerRevision, driver string) History {
	h := newHistory(w)
	for i := range all {
		if r, ok := workload.OfControllerRevision(&all[i]); ok {
			h.add(&all[i].ObjectMeta, r, all[i].Data.Raw, driver)
		}
	}
	return h.complete()
}

func newHistory(w workload.Workload) History {
	h := History{Workload: w, Mark: trigger.ParseMark(w.Labels[trigger.RolloutLabel])}
	text, _, found := reloader.Wanted(w.Annotations, w.Template)
	h.OptedIn = found
	if objects, err := trigger.Parse(text); err == nil {
		h.Triggers = objects
	}
	return h
}

// add takes a revision in that belongs to the workload and has its number.
func (h *History) add(meta *metav1.ObjectMeta, r workload.Revision, data []byte, driver string) {
	if r.Owner != h.Workload.UID || r.Number == 0 {
		return
	}
	is := Revision{
		Revision: r, Created: meta.CreationTimestamp.Time, Cause: meta.Annotations[changeCause],
		Annotations: meta.Annotations, Data: data,
	}
	if text, found := r.Template.Annotations[trigger.ConfigAnnotation]; found {
		is.Config, is.Problem = trigger.ParseConfig(text)
	}
	is.Items = h.items(is, driver)
	h.Revisions = append(h.Revisions, is)
}

// items returns what a revision uses of what its config names, and of what triggers the workload
// now.
func (h *History) items(r Revision, driver string) []Item {
	// A volume that cannot be read uses nothing.
	uses, _ := template.Uses(r.Template, template.Place{Namespace: h.Workload.Namespace, Driver: driver})
	used := map[api.Ref]bool{}
	for _, use := range uses {
		used[use.Object] = true
	}
	var items []Item
	copied, uncopied := r.Config.Copies(), r.Config.Uncopied()
	for _, source := range union(r.Config.Objects(), h.Triggers) {
		name := copied[source]
		version, inConfig := r.Config[source]
		switch {
		case used[source] && version == "" && inConfig:
			items = append(items, Item{Source: source, Absent: true})
		case used[source]:
			items = append(items, Item{Source: source})
		case name != "":
			items = append(items, Item{Source: source, Copy: name})
		case uncopied[source] != "":
			items = append(items, Item{Source: source, Unused: uncopied[source]})
		}
	}
	return items
}

func union(a, b []api.Ref) []api.Ref {
	all := slices.Concat(a, b)
	slices.SortFunc(all, trigger.Compare)
	return slices.Compact(all)
}

// complete sorts the revisions, and marks the current and the undone one.
func (h History) complete() History {
	slices.SortFunc(h.Revisions, func(a, b Revision) int { return cmp.Compare(a.Number, b.Number) })
	var current *Revision
	for i := range h.Revisions {
		if h.Has(h.Revisions[i].Template) {
			current = &h.Revisions[i]
		}
	}
	if current == nil {
		return h
	}
	current.Current = true
	if h.Workload.Labels[trigger.RolloutLabel] == "" || h.Mark.IsFor(current.Config) || !h.OptedIn {
		return h
	}
	for i := range slices.Backward(h.Revisions) {
		if r := &h.Revisions[i]; r.Config != nil && h.Mark.IsFor(r.Config) {
			r.Undone = true
			break
		}
	}
	return h
}

// Has reports whether the workload has this template now.
func (h History) Has(t *corev1.PodTemplateSpec) bool {
	return equality.Semantic.DeepEqual(Plain(h.Workload.Template), Plain(t))
}

// Plain returns a template without what Kubernetes adds to that of a ReplicaSet.
func Plain(t *corev1.PodTemplateSpec) *corev1.PodTemplateSpec {
	plain := t.DeepCopy()
	delete(plain.Labels, appsv1.DefaultDeploymentUniqueLabelKey)
	return plain
}

// Current returns the revision whose template the workload has, and false if its template is not a
// revision yet.
func (h History) Current() (Revision, bool) {
	i := slices.IndexFunc(h.Revisions, func(r Revision) bool { return r.Current })
	if i < 0 {
		return Revision{}, false
	}
	return h.Revisions[i], true
}

func (h History) index(number int64) int {
	return slices.IndexFunc(h.Revisions, func(r Revision) bool { return r.Number == number })
}

// Find returns the revision of a number. The error names those that there are.
func (h History) Find(number int64) (Revision, error) {
	i := h.index(number)
	switch {
	case len(h.Revisions) == 0:
		return Revision{}, fmt.Errorf("there is no revision %d: no revision is stored", number)
	case i < 0:
		return Revision{}, fmt.Errorf("there is no revision %d, there are: %s", number, Numbers(h.Revisions))
	}
	return h.Revisions[i], nil
}

// Before returns the revision that comes before one of a number, and false for the oldest one.
func (h History) Before(number int64) (Revision, bool) {
	i := h.index(number)
	if i < 1 {
		return Revision{}, false
	}
	return h.Revisions[i-1], true
}

// Target returns the revision that an undo goes to: that of a number, or for 0 the one before the
// newest, as kubectl has it.
func (h History) Target(number int64) (Revision, error) {
	switch {
	case number != 0:
		return h.Find(number)
	case len(h.Revisions) < 2:
		return Revision{}, errors.New("there is no revision to go back to: only the newest is stored")
	default:
		return h.Revisions[len(h.Revisions)-2], nil
	}
}

// Numbers lists the numbers of revisions.
func Numbers(list []Revision) string {
	if len(list) == 0 {
		return "none"
	}
	texts := make([]string, len(list))
	for i, r := range list {
		texts[i] = fmt.Sprint(r.Number)
	}
	return strings.Join(texts, ", ")
}
