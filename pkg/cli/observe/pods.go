package observe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/liveconfig-csi/liveconfig/pkg/cli/selection"
)

// Selector are the pods of a workload.
type Selector struct {
	selection.Workload

	client kubernetes.Interface
	// options select the pods of the namespace that may be of it.
	options metav1.ListOptions
	// sets are the ReplicaSets, by UID, that pods are known to be of: of a Deployment, and others,
	// which are false.
	sets map[types.UID]bool
}

// NewSelector returns the pods of a workload.
func NewSelector(client kubernetes.Interface, w selection.Workload) (*Selector, error) {
	c := &Selector{Workload: w, client: client, sets: map[types.UID]bool{}}
	switch w.Object.(type) {
	case *corev1.Pod:
		c.options.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, w.Meta.Name).String()
		return c, nil
	case *batchv1.CronJob:
		text := fmt.Sprintf("it makes Jobs, and they make the pods: name one of its Jobs, see kubectl -n %s get jobs",
			w.Meta.Namespace)
		return nil, &ForeignError{text}
	}
	parsed, err := metav1.LabelSelectorAsSelector(w.Selector)
	if err != nil {
		return nil, fmt.Errorf("its selector of pods: %w", err)
	}
	c.options.LabelSelector = parsed.String()
	return c, nil
}

// Wanted is how many pods are wanted. It is one until a controller has looked at the workload.
func (c *Selector) Wanted() int {
	switch o := c.Object.(type) {
	case *appsv1.DaemonSet:
		if o.Status.ObservedGeneration >= o.Generation {
			return int(o.Status.DesiredNumberScheduled)
		}
	case *batchv1.Job:
		return wantedOf(o)
	}
	return int(ptr.Deref(c.Replicas, 1))
}

// wantedOf is how many pods of a Job are wanted: at least one until it has ended, unless it is
// suspended.
func wantedOf(job *batchv1.Job) int {
	isOver := slices.ContainsFunc(job.Status.Conditions, func(c batchv1.JobCondition) bool {
		return (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue
	})
	isSuspended := job.Spec.Suspend != nil && *job.Spec.Suspend
	if isOver || isSuspended {
		return 0
	}
	return max(1, int(job.Status.Active))
}

// List asks for the pods.
func (c *Selector) List(ctx context.Context) ([]*corev1.Pod, error) {
	found, err := c.client.CoreV1().Pods(c.Meta.Namespace).List(ctx, c.options)
	if err != nil {
		return nil, fmt.Errorf("list its pods: %w", err)
	}
	pods := make([]*corev1.Pod, len(found.Items))
	for i := range found.Items {
		pods[i] = &found.Items[i]
	}
	return c.Own(ctx, pods)
}

// Own returns those of the pods that are the workload's, in the order of their names. A selector
// may fit others too.
func (c *Selector) Own(ctx context.Context, pods []*corev1.Pod) ([]*corev1.Pod, error) {
	var own []*corev1.Pod
	for _, pod := range pods {
		isOwn, err := c.belongs(ctx, pod)
		if err != nil {
			return nil, err
		}
		if isOwn {
			own = append(own, pod)
		}
	}
	slices.SortFunc(own, func(a, b *corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	return own, nil
}

// belongs reports whether a pod is one of the workload. It asks once for the ReplicaSets of a
// Deployment, and stores the answer.
func (c *Selector) belongs(ctx context.Context, pod *corev1.Pod) (bool, error) {
	controller := metav1.GetControllerOfNoCopy(pod)
	_, hasSets := c.Object.(*appsv1.Deployment)
	switch {
	case c.Pod != nil:
		return pod.UID == c.Meta.UID, nil
	case controller == nil:
		return false, nil
	case !hasSets:
		return controller.UID == c.Meta.UID, nil
	}
	if isOurs, known := c.sets[controller.UID]; known {
		return isOurs, nil
	}
	sets, err := c.client.AppsV1().ReplicaSets(c.Meta.Namespace).List(ctx, c.options)
	if err != nil {
		return false, fmt.Errorf("list its replicasets: %w", err)
	}
	c.sets[controller.UID] = false // It is gone, or none of those that the selector fits.
	for _, set := range sets.Items {
		c.sets[set.UID] = metav1.IsControlledBy(&set, c.Meta)
	}
	return c.sets[controller.UID], nil
}

// AsCreated returns the spec that new pods of a template have. A policy of the API server may have
// made volumes of the template volumes of the driver: the newest pod shows which.
func AsCreated(template *corev1.PodSpec, pods []*Pod, driver string) *corev1.PodSpec {
	if len(pods) == 0 {
		return template
	}
	newest := slices.MaxFunc(pods, func(a, b *Pod) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	created := template.DeepCopy()
	for i, v := range created.Volumes {
		at := slices.IndexFunc(newest.Spec.Volumes, func(has corev1.Volume) bool {
			return has.Name == v.Name && has.CSI != nil && has.CSI.Driver == driver
		})
		if at >= 0 && v.CSI == nil {
			created.Volumes[i] = newest.Spec.Volumes[at]
		}
	}
	return created
}

// Running returns those of the pods whose containers may run, and those that wait for that. One
// that is about to go is in neither.
func Running(pods []*corev1.Pod) (run, waiting []*corev1.Pod) {
	for _, pod := range pods {
		switch {
		case pod.DeletionTimestamp != nil:
		case pod.Status.Phase == corev1.PodRunning:
			run = append(run, pod)
		case pod.Status.Phase == corev1.PodPending:
			waiting = append(waiting, pod)
		}
	}
	return run, waiting
}

// ForeignError is about a workload whose pods have nothing that a driver or the rollout controller
// knows of. Among many that were not named it is not a mistake.
type ForeignError struct{ Reason string }

func (e *ForeignError) Error() string { return e.Reason }

// Watch follows the pods that may be of a workload.
type Watch struct {
	cache.SharedInformer

	// Changed gets something when pods have changed since it was last empty.
	Changed chan struct{}
	// Failed receives an error after which pods cannot be followed.
	Failed chan error
	Stop   context.CancelFunc
}

// Watch begins to follow the pods, and returns when all are known.
func (c *Selector) Watch(ctx context.Context) (*Watch, error) {
	ctx, cancel := context.WithCancel(ctx)
	pods := cache.NewFilteredListWatchFromClient(c.client.CoreV1().RESTClient(), "pods", c.Meta.Namespace,
		func(options *metav1.ListOptions) {
			options.LabelSelector, options.FieldSelector = c.options.LabelSelector, c.options.FieldSelector
		})
	w := &Watch{
		SharedInformer: cache.NewSharedInformer(pods, &corev1.Pod{}, 0),
		Changed:        make(chan struct{}, 1), Failed: make(chan error, 1), Stop: cancel,
	}
	note := func(any) {
		select {
		case w.Changed <- struct{}{}:
		default: // One is enough: the receiver looks at all pods.
		}
	}
	_, err := w.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: note, UpdateFunc: func(_, pod any) { note(pod) }, DeleteFunc: note,
	})
	if err := errors.Join(err, w.SetWatchErrorHandlerWithContext(w.handle)); err != nil {
		cancel()
		return nil, fmt.Errorf("follow its pods: %w", err)
	}
	go w.RunWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), w.HasSynced) {
		defer cancel()
		select {
		case err := <-w.Failed:
			return nil, err
		default:
			return nil, fmt.Errorf("list its pods: %w", context.Cause(ctx))
		}
	}
	return w, nil
}

// handle ends the watch if another attempt to follow the pods is useless.
func (w *Watch) handle(_ context.Context, _ *cache.Reflector, err error) {
	if !apierrors.IsForbidden(err) {
		return
	}
	select {
	case w.Failed <- fmt.Errorf("follow its pods, which takes the verbs list and watch: %w", err):
	default: // One is enough.
	}
	w.Stop()
}

// Pods returns the pods as they are now.
func (w *Watch) Pods() []*corev1.Pod {
	var pods []*corev1.Pod
	for _, item := range w.GetStore().List() {
		if pod, ok := item.(*corev1.Pod); ok {
			pods = append(pods, pod)
		}
	}
	return pods
}
