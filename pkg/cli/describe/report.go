package describe

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/api/statusz"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/cluster"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/nodes"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/printing"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/selection"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/versions"
	"github.com/liveconfig-csi/liveconfig/pkg/release"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/state"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/template"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/trigger"
)

// describer collects descriptions of workloads. It asks once for what several of them need.
type describer struct {
	*cluster.Cluster

	answers map[string]nodes.Answer
	events  map[string]events
}

func newDescriber(c *cluster.Cluster) *describer {
	return &describer{Cluster: c, answers: map[string]nodes.Answer{}, events: map[string]events{}}
}

type report struct {
	*describer
	Description

	selection.Workload
	// running are its pods, with the places where each shows objects, by UID.
	running []*corev1.Pod
	places  map[string][]versions.Place
	// newest are the places of the template.
	newest []versions.Place
	facts  map[api.Ref]cluster.Found
	// state is that of the rollout of the config.
	state state.State
}

func (t *describer) describe(ctx context.Context, kind string, w selection.Workload) Description {
	spec := &w.Template.Spec
	d := &report{describer: t, Workload: w, places: map[string][]versions.Place{}, facts: map[api.Ref]cluster.Found{}}
	d.Description = Description{
		Kind: kind, Namespace: w.Meta.Namespace, Name: w.Meta.Name,
		ServiceAccount: cmp.Or(spec.ServiceAccountName, spec.DeprecatedServiceAccount, "default"),
		Volumes:        []Volume{}, Others: []Use{}, Objects: []Object{}, Pods: []Pod{},
		Events: []Event{}, Unknown: []Unknown{},
	}
	d.findPods(ctx)
	d.fromSpec(cluster.AsCreated(spec, d.running, d.Driver))
	d.fromRollout(ctx)
	d.askNodes(ctx)
	d.askAPI(ctx)
	d.compareCopies()
	d.judgePods()
	d.judgeObjects()
	d.readEvents(ctx)
	return d.Description
}

func (d *report) addUnknown(u Unknown) { d.Unknown = append(d.Unknown, u) }

func (d *report) fromSpec(spec *corev1.PodSpec) {
	in := d.placeOf(d.Meta.Namespace)
	d.Others = append(d.Others, othersOf(spec, in)...)
	d.newest, _ = versions.Places(d.Template.Annotations, spec, in.Namespace, in.Driver) // Each volume has its mistakes.
	config, _ := trigger.ParseConfig(d.Template.Annotations[trigger.ConfigAnnotation])   // Without one there are no copies.
	d.Volumes = append(d.Volumes, volumesOf(spec, in, versions.Originals(config, in.Namespace))...)
}

func (t *describer) placeOf(namespace string) template.Place {
	return template.Place{Namespace: namespace, Driver: t.Driver}
}

func (d *report) fromRollout(ctx context.Context) {
	view, isRolledOut := selection.ViewOf(d.Object)
	if !isRolledOut {
		config, err := trigger.ParseConfig(d.Template.Annotations[trigger.ConfigAnnotation])
		if err == nil { // It is of a workload that is.
			d.Rollout = &Rollout{Copies: copiesIn(config)}
		}
		return
	}
	d.state = d.RolloutState(ctx, d.Object)
	if d.Rollout = rolloutOf(view, d.state); d.Rollout == nil {
		return
	}
	history, err := cluster.HistoryOf(ctx, d.Client, d.Object, d.Driver)
	if err != nil {
		d.addUnknown(Unknown{What: "its revision", Why: err.Error()})
		return
	}
	if current, found := history.Current(); found {
		d.Rollout.Revision = fmt.Sprint(current.Number)
	}
}

func (d *report) findPods(ctx context.Context) {
	selector, err := cluster.NewSelector(d.Client, d.Workload)
	if err != nil {
		d.addUnknown(Unknown{What: "its pods", Why: err.Error()})
		return
	}
	all, err := selector.List(ctx)
	if err != nil {
		d.addUnknown(Unknown{
			What: "its pods", Why: err.Error(), Type: fmt.Sprintf("kubectl -n %s auth can-i list pods", d.Meta.Namespace),
		})
		return
	}
	for _, pod := range all {
		isOver := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
		if d.Pod == nil && (isOver || pod.DeletionTimestamp != nil) {
			continue
		}
		d.addPod(pod)
	}
}

func (d *report) addPod(pod *corev1.Pod) {
	d.running = append(d.running, pod)
	d.places[string(pod.UID)], _ = versions.Places(pod.Annotations, &pod.Spec, pod.Namespace, d.Driver) // As in fromSpec.
}

// askNodes asks the nodes of pods that have volumes of liveconfig, unless they have been.
func (d *report) askNodes(ctx context.Context) {
	ours := map[string]nodes.Answer{}
	var names []string
	for _, pod := range d.running {
		node := pod.Spec.NodeName
		if _, isSeen := ours[node]; isSeen || notAsked(pod, d.volumesOf(pod)) != "" {
			continue
		}
		if _, isAsked := d.answers[node]; !isAsked {
			names = append(names, node)
		}
		ours[node] = nodes.Answer{}
	}
	maps.Copy(d.answers, d.Drivers.Reports(ctx, names))
	for node := range ours {
		ours[node] = d.answers[node]
	}
	for _, group := range nodes.UnaskedIn(ours) {
		d.addUnknown(Unknown{
			What: "what is in the files on " + printing.Names(group.Nodes, "node", "nodes"),
			Why:  "the driver cannot be asked: " + group.Why, Type: group.Type,
		})
	}
}

func (d *report) volumesOf(pod *corev1.Pod) []Volume {
	return volumesOf(&pod.Spec, d.placeOf(pod.Namespace), nil)
}

// notAsked returns why the node of a pod need not be asked; empty if it has to be.
func notAsked(pod *corev1.Pod, volumes []Volume) string {
	switch {
	case len(volumes) == 0:
		return "it has no volume of liveconfig"
	case pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed:
		return "it has ended, and its volumes with it"
	case pod.Spec.NodeName == "":
		return "it is on no node yet, so it has no volumes: kubectl describe pod shows what it waits for"
	default:
		return ""
	}
}

// askAPI asks which versions there are of what the template and the pods show. The nodes were asked
// before: what they have cannot be newer.
func (d *report) askAPI(ctx context.Context) {
	found := d.Versions(ctx, cluster.Copied(d.all()))
	for _, place := range d.all() {
		object := place.Object
		if _, isKnown := d.facts[object]; isKnown {
			continue
		}
		fact := found[object]
		if fact.Err != nil {
			fact.Version = versions.Newest(cluster.ReportsOf(d.answers), object)
			fact.Copies = d.copiesOf(object)
			d.addUnknown(Unknown{
				What: "which version of " + object.String() + " is the newest", Why: fact.Err.Error(),
				Type: fmt.Sprintf("kubectl -n %s auth can-i get %s/%s", object.Namespace, object.Kind.Resource(), object.Name),
			})
		}
		d.facts[object] = fact
	}
}

// compareCopies adds the copies of the template whose sources have changed since.
func (d *report) compareCopies() {
	for i := range d.newest {
		at := &d.newest[i]
		fact := d.facts[at.Object]
		if d.Pod != nil || !at.IsCopy() || len(fact.Copies) == 0 || fact.Copies[0] == at.Names.Name {
			continue
		}
		copied := api.Ref{Kind: at.Object.Kind, Name: fact.Copies[0]}
		next := Copy{Of: release.NameOf(at.Object), Copy: release.NameOf(copied)}
		if !slices.Contains(d.Rollout.Newer, next) {
			d.Rollout.Newer = append(d.Rollout.Newer, next)
		}
	}
}

// all returns the places of the template and of the pods, in their order and each once.
func (d *report) all() []versions.Place { return cluster.PlacesOf(d.newest, d.running, d.places) }

// copiesOf returns the copies of an object that the template names. There is nothing better where
// it may not be read.
func (d *report) copiesOf(object api.Ref) []string {
	for _, place := range d.newest {
		if place.Object == object && place.IsCopy() {
			return []string{place.Names.Name}
		}
	}
	return nil
}

func (d *report) judgePods() {
	for _, pod := range d.running {
		volumes := d.volumesOf(pod)
		next := Pod{
			Name: pod.Name, UID: string(pod.UID), Node: pod.Spec.NodeName, Phase: string(pod.Status.Phase),
			NotAsked: notAsked(pod, volumes), Volumes: []PodVolume{},
		}
		for _, v := range volumes {
			next.Volumes = append(next.Volumes, PodVolume{Name: v.Name})
		}
		answer := d.answers[pod.Spec.NodeName]
		var report *statusz.Report
		switch {
		case next.NotAsked != "":
		case answer.Err != nil:
			next.NotAsked = "the driver of its node cannot be asked, see below"
		default:
			report = &answer.Report
		}
		fill(&next, report, d.places[next.UID], d.facts)
		if d.Pod == nil && d.state.Waits {
			next.explain(d.newest, d.state.String())
		}
		d.Pods = append(d.Pods, next)
	}
}

func (d *report) judgeObjects() {
	seen := map[api.Ref]bool{}
	for _, place := range d.all() {
		if !seen[place.Object] {
			d.Objects = append(d.Objects, objectOf(place.Object, d.facts[place.Object], d.Pods))
		}
		seen[place.Object] = true
	}
}

const shownEvents = 5

// events are the Events of a namespace that concern liveconfig, or why they are not known.
type events struct {
	events []corev1.Event
	err    error
}

func (d *report) readEvents(ctx context.Context) {
	all := d.eventsIn(ctx, d.Meta.Namespace)
	if all.err != nil {
		d.addUnknown(Unknown{
			What: "some Events", Why: all.err.Error(), Type: fmt.Sprintf("kubectl -n %s auth can-i list events", d.Meta.Namespace),
		})
	}
	about := map[string]bool{string(d.Meta.UID): true}
	for _, pod := range d.running {
		about[string(pod.UID)] = true
	}
	for i := range all.events {
		e := &all.events[i]
		if about[string(e.InvolvedObject.UID)] && d.concerns(e) {
			d.Events = append(d.Events, eventOf(e))
		}
	}
	slices.SortStableFunc(d.Events, func(a, b Event) int { return b.Last.Compare(a.Last) })
	d.Events = d.Events[:min(len(d.Events), shownEvents)]
}

// eventsIn reads the Events of a namespace that the driver and the controller have written, and
// those of the kubelet about volumes that it could not mount. Others may be many.
func (t *describer) eventsIn(ctx context.Context, namespace string) events {
	if known, isKnown := t.events[namespace]; isKnown {
		return known
	}
	var found events
	for _, selector := range []string{
		"source=" + t.Driver, "source=" + api.ControllerName, "source=" + cluster.KubeletName + ",reason=FailedMount",
	} {
		list, err := t.Client.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{FieldSelector: selector})
		if err == nil {
			found.events = append(found.events, list.Items...)
		}
		found.err = cmp.Or(found.err, err) // The others are the same.
	}
	t.events[namespace] = found
	return found
}

// concerns reports whether an Event is about volumes of liveconfig: of the kubelet's some are about
// others.
func (d *report) concerns(e *corev1.Event) bool {
	if from(e) != cluster.KubeletName {
		return true
	}
	return slices.ContainsFunc(d.Volumes, func(v Volume) bool {
		return strings.Contains(e.Message, fmt.Sprintf("volume %q", v.Name))
	})
}

func from(e *corev1.Event) string { return cmp.Or(e.Source.Component, e.ReportingController) }

func eventOf(e *corev1.Event) Event {
	return Event{
		Type: e.Type, Reason: e.Reason, Last: cluster.LastSeen(e), Count: max(1, e.Count), From: from(e), Message: strings.TrimSpace(e.Message),
		Object: strings.ToLower(e.InvolvedObject.Kind) + "/" + e.InvolvedObject.Name,
	}
}
