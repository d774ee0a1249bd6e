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
	"github.com/liveconfig-csi/liveconfig/pkg/cli/observe"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/printing"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/reloaders"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/selection"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/versions"
	"github.com/liveconfig-csi/liveconfig/pkg/nodes"
	"github.com/liveconfig-csi/liveconfig/pkg/release"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/template"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/trigger"
)

// describer collects descriptions of workloads. It asks once for what several of them need.
type describer struct {
	*observe.Cluster

	asker   *reloaders.Asker
	answers map[string]nodes.Answer
	events  map[string]events
}

func newDescriber(c *observe.Cluster, asker *reloaders.Asker) *describer {
	return &describer{Cluster: c, asker: asker, answers: map[string]nodes.Answer{}, events: map[string]events{}}
}

type report struct {
	*describer
	Description

	selection.Workload
	// observed has the pods of Description.Pods as those that run, in the same order.
	observed *observe.Workload
	facts    map[api.Ref]observe.Found
}

func (t *describer) describe(ctx context.Context, kind string, w selection.Workload) Description {
	spec := &w.Template.Spec
	d := &report{describer: t, Workload: w, observed: &observe.Workload{Selector: &observe.Selector{Workload: w}}}
	d.Description = Description{
		Kind: kind, Namespace: w.Meta.Namespace, Name: w.Meta.Name,
		ServiceAccount: cmp.Or(spec.ServiceAccountName, spec.DeprecatedServiceAccount, "default"),
		Volumes:        []Volume{}, Others: []Use{}, Objects: []Object{}, Pods: []Pod{},
		Events: []Event{}, Unknown: []Unknown{},
	}
	d.findPods(ctx)
	d.LeftInTree = observe.LeftInTree(d.observed.Running)
	spec, in := observe.AsCreated(spec, d.observed.Running, d.Driver), d.placeOf(d.Namespace)
	d.Others = append(d.Others, othersOf(spec, d.Namespace)...)
	// Each volume has its mistakes, and without a config there are no copies.
	d.observed.Newest, _ = versions.Places(w.Template.Annotations, spec, in.Namespace, in.Driver)
	config, _ := trigger.ParseConfig(w.Template.Annotations[trigger.ConfigAnnotation])
	d.Volumes = append(d.Volumes, volumesOf(spec, in, versions.Originals(config, in.Namespace))...)
	d.fromRollout(ctx)
	for _, object := range d.ask(ctx) {
		d.Objects = append(d.Objects, objectOf(object, d.facts[object], d.Pods))
	}
	d.askReloaders(ctx)
	d.compareCopies()
	d.readEvents(ctx)
	return d.Description
}

func (d *report) lacks(what, why, next string) {
	d.Unknown = append(d.Unknown, Unknown{What: what, Why: why, Type: next})
}

// canI is the command that shows whether the user may do something.
func canI(namespace, verb, what string) string {
	return fmt.Sprintf("kubectl -n %s auth can-i %s %s", namespace, verb, what)
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
	d.observed.State = d.RolloutState(ctx, d.Object)
	if d.Rollout = rolloutOf(view, d.observed.State); d.Rollout == nil {
		return
	}
	history, err := observe.HistoryOf(ctx, d.Client, d.Object, d.Driver)
	if err != nil {
		d.lacks("its revision", err.Error(), "")
	} else if current, found := history.Current(); found {
		d.Rollout.Revision = fmt.Sprint(current.Number)
	}
}

func (d *report) findPods(ctx context.Context) {
	selector, err := observe.NewSelector(d.Client, d.Workload)
	if err != nil {
		d.lacks("its pods", err.Error(), "")
		return
	}
	all, err := selector.List(ctx)
	if err != nil {
		d.lacks("its pods", err.Error(), canI(d.Meta.Namespace, "list", "pods"))
		return
	}
	for _, pod := range all {
		if d.Pod != nil || !isOver(pod) && pod.DeletionTimestamp == nil {
			d.addPod(pod)
		}
	}
}

func isOver(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// addPod adds a pod of which nothing was asked yet.
func (d *report) addPod(pod *corev1.Pod) {
	next := Pod{
		Name: pod.Name, UID: string(pod.UID), Node: pod.Spec.NodeName, Phase: string(pod.Status.Phase),
		Volumes: []PodVolume{},
	}
	for _, v := range volumesOf(&pod.Spec, d.placeOf(pod.Namespace), nil) {
		next.Volumes = append(next.Volumes, PodVolume{Name: v.Name, Mistakes: v.Mistakes})
	}
	switch {
	case len(next.Volumes) == 0:
		next.NotAsked = "it has no volume of liveconfig"
	case isOver(pod):
		next.NotAsked = "it has ended, and its volumes with it"
	case next.Node == "":
		next.NotAsked = "it is on no node yet, so it has no volumes: kubectl describe pod shows what it waits for"
	}
	places, _ := versions.Places(pod.Annotations, &pod.Spec, pod.Namespace, d.Driver) // As those of the template.
	d.Pods = append(d.Pods, next)
	added := &observe.Pod{Pod: pod, Places: places, AsksNode: next.NotAsked == ""}
	d.observed.Running = append(d.observed.Running, added)
}

// ask asks the nodes and then the API server, and judges the pods. It returns the objects of the
// template and of the pods.
func (d *report) ask(ctx context.Context) []api.Ref {
	found := d.Observe(ctx, []*observe.Workload{d.observed}, d.answers)
	maps.Copy(d.answers, found.Answers)
	for _, group := range nodes.UnaskedIn(found.Answers) {
		names := printing.Names(group.Nodes, "node", "nodes")
		d.lacks("what is in the files on "+names, "the driver cannot be asked: "+group.Why, group.Type)
	}
	d.facts = found.Objects
	objects := d.completeFacts()
	for i := range d.Pods {
		d.judge(&d.Pods[i], d.observed.Running[i].Places)
	}
	return objects
}

// completeFacts returns the objects of the template and of the pods. Of an object that could not be
// read, it takes the copy that the template names for the newest.
func (d *report) completeFacts() (objects []api.Ref) {
	isListed := map[api.Ref]bool{}
	for _, place := range d.observed.All() {
		object := place.Object
		if isListed[object] {
			continue
		}
		isListed[object], objects = true, append(objects, object)
		fact := d.facts[object]
		if fact.Err == nil {
			continue
		}
		isCopy := func(at versions.Place) bool { return at.Object == object && at.IsCopy() }
		if i := slices.IndexFunc(d.observed.Newest, isCopy); i >= 0 {
			fact.Copies = []string{d.observed.Newest[i].Names.Name} // There is nothing better.
		}
		d.facts[object] = fact
		d.lacks("which version of "+object.String()+" is the newest", fact.Err.Error(),
			canI(object.Namespace, "get", object.Kind.Resource()+"/"+object.Name))
	}
	return objects
}

// compareCopies adds the copies of the template whose sources have changed since.
func (d *report) compareCopies() {
	for _, at := range d.observed.Newest {
		fact := d.facts[at.Object]
		if d.Pod != nil || !at.IsCopy() || len(fact.Copies) == 0 || fact.Copies[0] == at.Names.Name {
			continue
		}
		copied := at.Object.Named(fact.Copies[0])
		next := Copy{Of: release.NameOf(at.Object), Copy: release.NameOf(copied)}
		if !slices.Contains(d.Rollout.Newer, next) {
			d.Rollout.Newer = append(d.Rollout.Newer, next)
		}
	}
}

func (d *report) judge(pod *Pod, places []versions.Place) {
	answer := d.answers[pod.Node]
	var report *statusz.Report
	switch {
	case pod.NotAsked != "":
	case answer.Err != nil:
		pod.NotAsked = "the driver of its node cannot be asked, see below"
	default:
		report = &answer.Report
	}
	fill(pod, report, places, d.facts)
	if d.Pod == nil && d.observed.State.Waits {
		pod.explain(d.observed.Newest, d.observed.State.String())
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
		d.lacks("some Events", all.err.Error(), canI(d.Meta.Namespace, "list", "events"))
	}
	about := map[string]bool{string(d.Meta.UID): true}
	for _, pod := range d.observed.Running {
		about[string(pod.UID)] = true
	}
	for i := range all.events {
		e := &all.events[i]
		if about[string(e.InvolvedObject.UID)] && d.concerns(e) {
			d.Events = append(d.Events, Event{
				Type: e.Type, Reason: e.Reason, Last: observe.LastSeen(e), Count: max(1, e.Count), From: from(e),
				Message: strings.TrimSpace(e.Message), Object: strings.ToLower(e.InvolvedObject.Kind) + "/" + e.InvolvedObject.Name,
			})
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
		"source=" + t.Driver, "source=" + api.ControllerName, "source=" + observe.KubeletName + ",reason=FailedMount",
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
	if from(e) != observe.KubeletName {
		return true
	}
	return slices.ContainsFunc(d.Volumes, func(v Volume) bool {
		return strings.Contains(e.Message, fmt.Sprintf("volume %q", v.Name))
	})
}

func from(e *corev1.Event) string { return cmp.Or(e.Source.Component, e.ReportingController) }
