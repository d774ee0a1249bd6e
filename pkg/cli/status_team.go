package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/nodes"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/versions"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/state"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/trigger"
	"github.com/liveconfig-csi/liveconfig/pkg/statusz"
)

// team is a workload and its pods at one time.
type team struct {
	*crew

	name    string
	pods    []*corev1.Pod
	pending int
	// waiting are pods on nodes whose containers do not run, and which have volumes of liveconfig.
	waiting []*corev1.Pod
	// mounts say why the kubelet could not mount volumes, by the UID of the pod.
	mounts map[string]string
	// state is that of the rollout of the config.
	state state.State
	// places are those of each pod, by UID.
	places map[string][]versions.Place
	// newest are the places of the template.
	newest []versions.Place
}

// foreignError is about a workload whose pods have nothing that a driver or the rollout controller knows of. Among many that
// were not named it is no mistake.
type foreignError struct{ reason string }

func (e *foreignError) Error() string { return e.reason }

// team finds the pods of a workload and where they show the objects, or all if there are none. It may return an error with
// what it found all the same.
func (c *cluster) team(ctx context.Context, w workload, driver string, objects []trigger.Object) (*team, error) {
	crew, err := newCrew(c.client, w)
	if err != nil {
		return nil, err
	}
	pods, err := crew.list(ctx)
	if err != nil {
		return nil, err
	}
	t := &team{crew: crew, places: map[string][]versions.Place{}}
	t.pods, t.pending = running(pods)
	mistakes := map[string]bool{} // Of each pod they are the same.
	shown := map[versions.Place]bool{}
	look := func(annotations map[string]string, spec *corev1.PodSpec) []versions.Place {
		places, err := versions.Places(annotations, spec, w.meta.Namespace, driver)
		if err != nil {
			mistakes[err.Error()] = true
		}
		for _, place := range places {
			shown[place] = true
		}
		return among(places, objects)
	}
	t.newest = look(w.template.Annotations, &w.template.Spec)
	for _, pod := range t.pods {
		t.places[string(pod.UID)] = look(pod.Annotations, &pod.Spec)
	}
	for _, pod := range pods {
		isWaiting := pod.DeletionTimestamp == nil && pod.Status.Phase == corev1.PodPending && pod.Spec.NodeName != ""
		if !isWaiting {
			continue
		}
		places := look(pod.Annotations, &pod.Spec)
		if slices.ContainsFunc(places, func(p versions.Place) bool { return p.Volume != "" }) {
			t.places[string(pod.UID)] = places
			t.waiting = append(t.waiting, pod)
		}
	}
	t.state = c.rolloutState(ctx, w.object)
	t.mounts = c.failedMounts(ctx, w.meta.Namespace, t.waiting)
	return t, t.mistakes(mistakes, shown, objects)
}

// mistakes returns what is wrong with a team: what could not be read, and objects that it does not show.
func (t *team) mistakes(mistakes map[string]bool, shown map[versions.Place]bool, objects []trigger.Object) error {
	var errs []error
	for _, text := range slices.Sorted(maps.Keys(mistakes)) {
		errs = append(errs, errors.New(text))
	}
	var others []string
	for place := range shown {
		others = append(others, trigger.Object{Kind: place.Object.Kind, Name: place.Object.Name}.String())
	}
	slices.Sort(others)
	others = slices.Compact(others)
	if len(others) == 0 && len(errs) == 0 && t.state.Name == state.NotTriggered {
		return &foreignError{"it has no volume of liveconfig, and nothing triggers rollouts of it: " +
			"what Kubernetes' own volumes show, no driver knows"}
	}
	for _, object := range objects {
		if len(others) > 0 && !slices.Contains(others, object.String()) {
			errs = append(errs, fmt.Errorf("no volume of liveconfig in it shows %s: there is %s", object, strings.Join(others, ", ")))
		}
	}
	return errors.Join(errs...)
}

// among returns the places of the objects, or all if there are none.
func among(places []versions.Place, objects []trigger.Object) []versions.Place {
	if len(objects) == 0 {
		return places
	}
	return slices.DeleteFunc(places, func(p versions.Place) bool {
		return !slices.Contains(objects, trigger.Object{Kind: p.Object.Kind, Name: p.Object.Name})
	})
}

// nodesOf returns the nodes that have to be asked.
func nodesOf(teams []*team) []string {
	names := map[string]bool{}
	for _, t := range teams {
		for _, pod := range slices.Concat(t.pods, t.waiting) {
			isShown := slices.ContainsFunc(t.places[string(pod.UID)], func(p versions.Place) bool { return p.Volume != "" })
			names[pod.Spec.NodeName] = names[pod.Spec.NodeName] || isShown
		}
	}
	maps.DeleteFunc(names, func(_ string, isAsked bool) bool { return !isAsked })
	return slices.Sorted(maps.Keys(names))
}

// objectsOf returns the objects that pods show, and whether copies of them are what some have.
func objectsOf(teams []*team) map[api.Ref]bool {
	objects := map[api.Ref]bool{}
	for _, t := range teams {
		for _, place := range t.all() {
			objects[place.Object] = objects[place.Object] || place.IsCopy()
		}
	}
	return objects
}

func reports(answers map[string]nodes.Answer) []statusz.Report {
	var all []statusz.Report
	for _, answer := range answers {
		if answer.Err == nil {
			all = append(all, answer.Report)
		}
	}
	return all
}

// all returns the places of the template and of the pods, in their order and each once.
func (t *team) all() []versions.Place { return placesOf(t.newest, t.pods, t.places) }

// placesOf returns the places of a template and of pods, which are known by UID.
func placesOf(newest []versions.Place, pods []*corev1.Pod, places map[string][]versions.Place) []versions.Place {
	all := slices.Clone(newest)
	for _, pod := range pods {
		for _, place := range places[string(pod.UID)] {
			if !slices.Contains(all, place) {
				all = append(all, place)
			}
		}
	}
	return all
}

// status judges each place of each pod.
func (t *team) status(answers map[string]nodes.Answer, there map[api.Ref]versions.Now, notes map[api.Ref]string) workloadStatus {
	w := workloadStatus{Workload: t.name, Namespace: t.meta.Namespace, Running: len(t.pods), Pending: t.pending, Sources: []sourceStatus{}}
	lines := map[versions.Place]int{} // By volume and object: which copy is in it makes no difference.
	for _, place := range t.all() {
		key := versions.Place{Volume: place.Volume, Object: place.Object}
		if _, found := lines[key]; found {
			continue
		}
		lines[key] = len(w.Sources)
		w.Sources = append(w.Sources, t.source(place, there, notes))
	}
	for _, pod := range t.pods {
		for _, place := range t.places[string(pod.UID)] {
			at := lines[versions.Place{Volume: place.Volume, Object: place.Object}]
			w.Sources[at].add(t.podStatus(pod, place, answers[pod.Spec.NodeName], there[place.Object]))
		}
	}
	for _, pod := range t.waiting {
		t.addWaiting(&w, lines, pod, answers[pod.Spec.NodeName])
	}
	if t.state.Name != state.NotTriggered {
		w.Rollout = &t.state
	}
	return w
}

// addWaiting adds a pod that waits for a volume. What the kubelet says about it needs no driver that answers; without both,
// the pod may as well wait for an image, and stays pending.
func (t *team) addWaiting(w *workloadStatus, lines map[versions.Place]int, pod *corev1.Pod, answer nodes.Answer) {
	isAdded, why := false, t.mounts[string(pod.UID)]
	if why == "" && answer.Err != nil {
		return
	}
	if why == "" {
		why = "it waits for its volume; see kubectl describe pod/" + pod.Name
	}
	for _, place := range t.places[string(pod.UID)] {
		isShown := answer.Err == nil && answer.Report.Published(string(pod.UID), place.Volume)
		at, found := lines[versions.Place{Volume: place.Volume, Object: place.Object}]
		if place.Volume == "" || isShown || !found {
			continue
		}
		isAdded = true
		w.Sources[at].add(podStatus{
			Pod: pod.Name, Node: pod.Spec.NodeName, State: versions.Lagging, Since: pod.CreationTimestamp.Time, Why: why,
		})
	}
	if isAdded {
		w.Pending--
	}
}

func (t *team) source(place versions.Place, there map[api.Ref]versions.Now, notes map[api.Ref]string) sourceStatus {
	now := t.wish(place, there[place.Object])
	s := sourceStatus{
		Volume: place.Volume, Kind: place.Object.Kind, Namespace: place.Object.Namespace, Name: place.Object.Name,
		Note: notes[place.Object], Pods: []podStatus{},
	}
	switch {
	case len(now.Copies) > 0:
		s.Version = now.Copies[0]
	case now.Version != nil:
		s.Version = now.Version.ResourceVersion
	}
	return s
}

// wish is what the pods should have in a place. Where it is not known which copy that is, it is the one of the template.
func (t *team) wish(place versions.Place, now versions.Now) versions.Now {
	if !place.IsCopy() {
		now.Copies = nil
		return now
	}
	if len(now.Copies) > 0 || t.pod != nil {
		return now
	}
	for _, newest := range t.newest {
		if newest.Volume == place.Volume && newest.Object == place.Object {
			now.Copies = []string{newest.Names.Name}
		}
	}
	return now
}

func (t *team) podStatus(pod *corev1.Pod, place versions.Place, answer nodes.Answer, there versions.Now) podStatus {
	judged := versions.Pod{Name: pod.Name, UID: string(pod.UID), Node: pod.Spec.NodeName}
	if answer.Err == nil && answer.Report.SchemaVersion > 0 {
		judged.Report = &answer.Report
	}
	now := t.wish(place, there)
	v := judged.Judge(place, now)
	if isOfTemplate := slices.Contains(t.newest, place); v.State == versions.Lagging && place.IsCopy() && isOfTemplate && t.pod == nil {
		v = t.explained(v, now)
	}
	return podStatus{Pod: pod.Name, Node: pod.Spec.NodeName, State: v.State, Has: v.Has, Since: v.Since, Why: v.Why}
}

// explained says why the newest config is not in the template. After an undo without an edit there is none to wait for.
func (t *team) explained(v versions.Verdict, now versions.Now) versions.Verdict {
	switch {
	case slices.Contains(now.Copies, "") || len(now.Copies) == 0:
		v.Why = "it is not known which copy is the newest"
	case t.state.Name == state.NoEdit:
		return versions.Verdict{State: versions.Current, Has: v.Has}
	case t.state.Name == state.Undone:
		v.Why = "the rollout to " + now.Copies[0] + " was undone"
	case t.state.Name == state.Pending:
		v.Why = now.Copies[0] + " is not rolled out yet; see kubectl events --for " + t.name
	default:
		v.Why = t.state.String()
	}
	return v
}

// failedMounts returns why the kubelet could not mount volumes of pods, by their UIDs.
func (c *cluster) failedMounts(ctx context.Context, namespace string, pods []*corev1.Pod) map[string]string {
	reasons := map[string]string{}
	if len(pods) == 0 {
		return reasons
	}
	list, err := c.client.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{FieldSelector: "reason=FailedMount"})
	if err != nil {
		return reasons // The pods say less then.
	}
	slices.SortFunc(list.Items, func(a, b corev1.Event) int { return last(&a).Compare(last(&b)) })
	for i := range list.Items {
		reasons[string(list.Items[i].InvolvedObject.UID)] = mountProblem(list.Items[i].Message)
	}
	return reasons
}

// mountProblem is the first line of what a driver has said, without the kubelet's words around it.
func mountProblem(message string) string {
	if _, said, found := strings.Cut(message, "desc = "); found {
		message = said
	}
	text, _, _ := strings.Cut(strings.TrimSpace(message), "\n")
	if before, isDenied := strings.CutSuffix(text, "; to allow it, apply:"); isDenied {
		text = before + "; see kubectl liveconfig grant"
	}
	return text
}
