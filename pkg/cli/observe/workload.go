package observe

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/selection"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/session"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/versions"
	"github.com/liveconfig-csi/liveconfig/pkg/nodes"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/state"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/trigger"
)

// Pod is a pod, and where it shows objects.
type Pod struct {
	*corev1.Pod

	Places []versions.Place
	// AsksNode is true if the driver of its node knows something of it.
	AsksNode bool
}

// On is the pod as an answer of its node shows it.
func (p *Pod) On(answer nodes.Answer) versions.Pod {
	pod := versions.Pod{UID: string(p.UID)}
	if answer.Err == nil && answer.Report.SchemaVersion > 0 {
		pod.Report = &answer.Report
	}
	return pod
}

// Workload is a workload and its pods at one time.
type Workload struct {
	*Selector

	Name string
	// Running are the pods whose containers may run, and Pending counts those that wait for that.
	Running []*Pod
	Pending int
	// Waiting are pods on nodes whose containers do not run, and which have volumes of liveconfig.
	Waiting []*Pod
	// Mounts explains why the kubelet could not mount volumes.
	Mounts Mounts
	// State is that of the rollout of the config.
	State state.State
	// Newest are the places of the template.
	Newest []versions.Place

	driver string
	// objects are those that were asked for, or the selections that have them.
	objects []api.Ref
	// unread are the mistakes of templates and pods: those of one workload have the same. Shown are
	// the objects of all places.
	unread map[string]bool
	shown  map[string]bool
}

// FindPods finds the pods of a workload and where they show the objects, or every object if objects
// is empty. It may return an error with what it found all the same.
func (c *Cluster) FindPods(ctx context.Context, w selection.Workload, objects []api.Ref) (*Workload, error) {
	selector, err := NewSelector(c.Client, w)
	if err != nil {
		return nil, err
	}
	all, err := selector.List(ctx)
	if err != nil {
		return nil, err
	}
	next := &corev1.Pod{Spec: w.Template.Spec}
	next.Namespace, next.Annotations = w.Meta.Namespace, w.Template.Annotations
	t := c.newWorkload(selector, all, c.withSelections(ctx, objects, append(slices.Clone(all), next)))
	t.Newest = t.look(w.Template.Annotations, &w.Template.Spec)
	t.State = c.RolloutState(ctx, w.Object)
	t.Mounts = c.FailedMounts(ctx, w.Meta.Namespace, t.Waiting)
	return t, t.mistakes()
}

func (c *Cluster) newWorkload(selector *Selector, all []*corev1.Pod, objects []api.Ref) *Workload {
	running, waiting := Running(all)
	t := &Workload{
		Selector: selector, Pending: len(waiting), driver: c.Driver, objects: objects, unread: map[string]bool{},
		shown: map[string]bool{},
	}
	for _, pod := range running {
		t.Running = append(t.Running, t.pod(pod))
	}
	for _, pod := range waiting {
		if pod.Spec.NodeName == "" {
			continue
		}
		if next := t.pod(pod); next.AsksNode {
			t.Waiting = append(t.Waiting, next)
		}
	}
	return t
}

func (t *Workload) pod(pod *corev1.Pod) *Pod {
	places := t.look(pod.Annotations, &pod.Spec)
	return &Pod{Pod: pod, Places: places, AsksNode: HasVolume(places)}
}

// Among returns those of the places that were asked for. The places are reused.
func (t *Workload) Among(places []versions.Place) []versions.Place { return Among(places, t.objects) }

// HasVolume reports whether a place is in a volume of liveconfig.
func HasVolume(places []versions.Place) bool {
	return slices.ContainsFunc(places, func(p versions.Place) bool { return p.Volume != "" })
}

func (t *Workload) look(annotations map[string]string, spec *corev1.PodSpec) []versions.Place {
	places, err := versions.Places(annotations, spec, t.Meta.Namespace, t.driver)
	if err != nil {
		t.unread[err.Error()] = true
	}
	for _, place := range places {
		t.shown[edited(place).String()] = true
	}
	return Among(places, t.objects)
}

// mistakes returns the mistakes of the pods: places that cannot be read, and objects that no volume
// shows.
func (t *Workload) mistakes() error {
	var errs []error
	for _, text := range slices.Sorted(maps.Keys(t.unread)) {
		errs = append(errs, errors.New(text))
	}
	others := slices.Sorted(maps.Keys(t.shown))
	if len(others) == 0 && len(errs) == 0 && t.State.Name == state.NotTriggered {
		return &ForeignError{Reason: "it has no volume of liveconfig, and nothing triggers rollouts of it: " +
			"drivers do not know what Kubernetes' own volumes show"}
	}
	for _, object := range t.objects {
		if len(others) > 0 && !t.shown[object.String()] {
			errs = append(errs, fmt.Errorf("no volume of liveconfig in it shows %s: there is %s", object,
				strings.Join(others, ", ")))
		}
	}
	return errors.Join(errs...)
}

// Among returns the places of the objects, or every place if objects is empty.
func Among(places []versions.Place, objects []api.Ref) []versions.Place {
	if len(objects) == 0 {
		return places
	}
	return slices.DeleteFunc(places, func(p versions.Place) bool {
		return !slices.Contains(objects, edited(p))
	})
}

// edited is the object of a place that people edit.
func edited(p versions.Place) api.Ref {
	return p.Object.Local()
}

func nodesOf(workloads []*Workload) []string {
	names := map[string]bool{}
	for _, t := range workloads {
		for _, pod := range slices.Concat(t.Running, t.Waiting) {
			if pod.AsksNode {
				names[pod.Spec.NodeName] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// Copied returns the objects of places, and whether copies of them are in some.
func Copied(places []versions.Place) map[api.Ref]bool {
	objects := map[api.Ref]bool{}
	for _, place := range places {
		objects[place.Object] = objects[place.Object] || place.IsCopy()
	}
	return objects
}

// All returns the places of the template and of the pods, in their order and each once.
func (t *Workload) All() []versions.Place {
	all := slices.Clone(t.Newest)
	for _, pod := range slices.Concat(t.Running, t.Waiting) {
		all = append(all, pod.Places...)
	}
	return Distinct(all)
}

// Distinct returns places in their order and each once.
func Distinct(places []versions.Place) []versions.Place {
	var all []versions.Place
	known := map[versions.Place]bool{}
	for _, place := range places {
		if !known[place] {
			all = append(all, place)
		}
		known[place] = true
	}
	return all
}

// notEnded selects pods that have volumes, or will have.
const notEnded = "status.phase!=Succeeded,status.phase!=Failed"

const mostMistakes = 20

// Pods reads the pods of a scope in pages, and returns those that have volumes of liveconfig or
// copies, in the order of their namespaces and names. Of each pod only the part stays in memory
// that decides about these. It also returns how many pods it looked at.
func (c *Cluster) Pods(ctx context.Context, scope selection.Scope) (found []*corev1.Pod, looked int, err error) {
	options := metav1.ListOptions{LabelSelector: scope.Labels, FieldSelector: notEnded, Limit: session.PageSize}
	err = resource.FollowContinue(&options, func(options metav1.ListOptions) (runtime.Object, error) {
		page, err := c.Client.CoreV1().Pods(scope.Namespace).List(ctx, options)
		for i := range page.Items {
			looked++
			pod := &page.Items[i]
			_, hasCopies := pod.Annotations[trigger.ConfigAnnotation]
			if pod.DeletionTimestamp == nil && (hasCopies || slices.ContainsFunc(pod.Spec.Volumes, c.isOurs)) {
				found = append(found, c.excerpt(pod))
			}
		}
		return page, err
	})
	switch {
	case apierrors.IsForbidden(err):
		return nil, 0, notAllowed(scope)
	case apierrors.IsResourceExpired(err):
		return nil, 0, errors.New("list pods: the API server has dropped the list before its last page: run the " +
			"command again")
	case err != nil:
		return nil, 0, fmt.Errorf("list pods of %s: %w", scope, err)
	}
	return found, looked, nil
}

func notAllowed(scope selection.Scope) error {
	if scope.Namespace != "" {
		return fmt.Errorf("you may not list pods in namespace %s; see kubectl -n %[1]s auth can-i list pods", scope.Namespace)
	}
	return errors.New("you may not list the pods of all namespaces, which takes the verb list on pods in a ClusterRole; " +
		"see kubectl auth can-i list pods --all-namespaces")
}

func (c *Cluster) isOurs(v corev1.Volume) bool { return v.CSI != nil && v.CSI.Driver == c.Driver }

// excerpt returns the part of a pod that decides about its volumes of liveconfig and its copies.
// The other volumes are empty: mistakes are named by the numbers of volumes.
func (c *Cluster) excerpt(pod *corev1.Pod) *corev1.Pod {
	part := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, CreationTimestamp: pod.CreationTimestamp,
		},
		Spec:   corev1.PodSpec{NodeName: pod.Spec.NodeName},
		Status: corev1.PodStatus{Phase: pod.Status.Phase},
	}
	if config, hasCopies := pod.Annotations[trigger.ConfigAnnotation]; hasCopies {
		part.Annotations = map[string]string{trigger.ConfigAnnotation: config}
	}
	for _, v := range pod.Spec.Volumes {
		if !c.isOurs(v) {
			v = corev1.Volume{Name: v.Name}
		}
		part.Spec.Volumes = append(part.Spec.Volumes, v)
	}
	return part
}

// FindFleet finds the pods of a scope that show the objects, or any object if objects is empty. The
// pods of a namespace are one workload. It may return an error with what it found all the same.
func (c *Cluster) FindFleet(ctx context.Context, scope selection.Scope, objects []api.Ref) ([]*Workload, error) {
	all, looked, err := c.Pods(ctx, scope)
	if err != nil {
		return nil, err
	}
	objects = c.withSelections(ctx, objects, all)
	shows := map[string][]*corev1.Pod{} // By namespace.
	for _, pod := range all {
		places, err := versions.Places(pod.Annotations, &pod.Spec, pod.Namespace, c.Driver)
		if err != nil || len(Among(places, objects)) > 0 {
			shows[pod.Namespace] = append(shows[pod.Namespace], pod)
		}
	}
	if len(shows) == 0 {
		return nil, c.nothing(scope, objects, looked)
	}
	var fleet []*Workload
	var waiting []*Pod
	for _, namespace := range slices.Sorted(maps.Keys(shows)) {
		selector := &Selector{Workload: selection.Workload{Meta: &metav1.ObjectMeta{Namespace: namespace}}}
		t := c.newWorkload(selector, shows[namespace], objects)
		t.Name = "pods"
		fleet, waiting = append(fleet, t), append(waiting, t.Waiting...)
	}
	mounts := c.FailedMounts(ctx, scope.Namespace, waiting)
	for _, t := range fleet {
		t.Mounts = mounts
	}
	return fleet, unreadIn(fleet)
}

func (c *Cluster) nothing(scope selection.Scope, objects []api.Ref, looked int) error {
	if len(objects) == 0 {
		return &NoPodsError{fmt.Sprintf("no pod in %s has a volume of the driver %s: %d pods looked at; use --driver-name "+
			"if it has another name",
			scope, c.Driver, looked)}
	}
	names := make([]string, len(objects))
	for i, object := range objects {
		names[i] = object.String()
	}
	return fmt.Errorf("no volume of liveconfig in %s shows %s: %d pods looked at", scope, strings.Join(names, " or "),
		looked)
}

// NoPodsError is about a scope in which no pod has a volume of liveconfig or a copy.
type NoPodsError struct{ Reason string }

func (e *NoPodsError) Error() string { return e.Reason }

func unreadIn(fleet []*Workload) error {
	var errs []error
	for _, t := range fleet {
		for _, text := range slices.Sorted(maps.Keys(t.unread)) {
			errs = append(errs, fmt.Errorf("namespace %s: %s", t.Meta.Namespace, text))
		}
	}
	if more := len(errs) - mostMistakes; more > 0 {
		errs = append(errs[:mostMistakes],
			fmt.Errorf("and %d more mistakes: see kubectl liveconfig describe -A --problems", more))
	}
	return errors.Join(errs...)
}
