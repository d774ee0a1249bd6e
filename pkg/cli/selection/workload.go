package selection

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/liveconfig-csi/liveconfig/pkg/cli/session"
	rolled "github.com/liveconfig-csi/liveconfig/pkg/rollout/workload"
)

// Chosen is a workload or pod that was selected.
type Chosen struct {
	Workload

	Info *resource.Info
}

// Workloads finds the workloads and pods that were selected. It may return an error with what it
// found all the same. An object that was named twice is there once.
func (s *Selection) Workloads(in *session.Session, args []string) ([]Chosen, error) {
	var found []Chosen
	var errs, others []error
	isFound := map[types.UID]bool{}
	for _, target := range apart(args) {
		infos, err := s.Visit(in, target)
		errs = append(errs, err)
		for _, info := range infos {
			w, ok := AsWorkload(info.Object)
			if !ok {
				others = append(others, fmt.Errorf("%s: it makes no pods: name a deployment, statefulset, daemonset, job or pod",
					Subject(info)))
				continue
			}
			if uid := w.Meta.UID; uid == "" || !isFound[uid] { // An object of a file has no UID.
				isFound[uid] = true
				found = append(found, Chosen{Workload: w, Info: info})
			}
		}
	}
	if s.FromFiles() && len(found) > 0 {
		others = nil // Files hold more than workloads.
	}
	return found, errors.Join(append(errs, others...)...)
}

// apart takes arguments apart that name several objects, so that one that is missing hides no
// other: TYPE/NAME TYPE/NAME, and TYPE NAME NAME.
func apart(args []string) [][]string {
	var targets [][]string
	isPart := func(arg string) bool { return !strings.Contains(arg, "/") }
	switch {
	case len(args) > 1 && !slices.ContainsFunc(args, isPart):
		for _, arg := range args {
			targets = append(targets, []string{arg})
		}
	case len(args) > 2 && !strings.ContainsAny(strings.Join(args, ""), "/,"):
		for _, name := range args[1:] {
			targets = append(targets, []string{args[0], name})
		}
	default:
		targets = append(targets, args)
	}
	return targets
}

// Subject is how messages name an object.
func Subject(info *resource.Info) string {
	if info.Mapping != nil {
		return info.Mapping.Resource.Resource + "/" + info.Name
	}
	return info.Object.GetObjectKind().GroupVersionKind().Kind + "/" + info.Name
}

// NamespaceOfPods returns the namespace that a workload's pods are in.
func NamespaceOfPods(info *resource.Info, w Workload) string {
	return cmp.Or(w.Meta.Namespace, info.Namespace, corev1.NamespaceDefault)
}

// Workload is an object that has a pod template, or is a pod.
type Workload struct {
	Object   runtime.Object
	Meta     *metav1.ObjectMeta
	Template *corev1.PodTemplateSpec
	Pod      *corev1.Pod // Nil but for a pod, of which Template has a copy.
	// Selector and Replicas are nil for objects that have none.
	Selector *metav1.LabelSelector
	Replicas *int32
}

// AsWorkload returns the view of an object, which shares memory with it, and false for one that
// makes no pods.
func AsWorkload(object runtime.Object) (Workload, bool) {
	switch o := object.(type) {
	case *corev1.Pod:
		return Workload{
			Object: o, Meta: &o.ObjectMeta, Template: &corev1.PodTemplateSpec{ObjectMeta: o.ObjectMeta, Spec: o.Spec}, Pod: o,
		}, true
	case *appsv1.Deployment:
		return Workload{
			Object: o, Meta: &o.ObjectMeta, Template: &o.Spec.Template, Selector: o.Spec.Selector, Replicas: o.Spec.Replicas,
		}, true
	case *appsv1.StatefulSet:
		return Workload{
			Object: o, Meta: &o.ObjectMeta, Template: &o.Spec.Template, Selector: o.Spec.Selector, Replicas: o.Spec.Replicas,
		}, true
	case *appsv1.DaemonSet:
		return Workload{Object: o, Meta: &o.ObjectMeta, Template: &o.Spec.Template, Selector: o.Spec.Selector}, true
	case *appsv1.ReplicaSet:
		return Workload{
			Object: o, Meta: &o.ObjectMeta, Template: &o.Spec.Template, Selector: o.Spec.Selector, Replicas: o.Spec.Replicas,
		}, true
	case *corev1.ReplicationController:
		selector := metav1.SetAsLabelSelector(o.Spec.Selector)
		return Workload{
			Object: o, Meta: &o.ObjectMeta, Template: o.Spec.Template, Selector: selector, Replicas: o.Spec.Replicas,
		}, o.Spec.Template != nil
	case *batchv1.Job:
		return Workload{Object: o, Meta: &o.ObjectMeta, Template: &o.Spec.Template, Selector: o.Spec.Selector}, true
	case *batchv1.CronJob:
		return Workload{Object: o, Meta: &o.ObjectMeta, Template: &o.Spec.JobTemplate.Spec.Template}, true
	default:
		return Workload{}, false
	}
}

// Each does something to each workload, and goes on after an error. Among the objects of files,
// others are passed over.
func (s *Selection) Each(in *session.Session, args []string, do func(*resource.Info) error) error {
	infos, err := s.Visit(in, args)
	if err != nil {
		return err
	}
	hasRollouts := func(info *resource.Info) bool { _, known := ViewOf(info.Object); return known }
	passesOver := len(args) == 0 && slices.ContainsFunc(infos, hasRollouts)
	var errs []error
	for _, info := range infos {
		err := ErrNoRollouts
		switch {
		case hasRollouts(info):
			err = do(info)
		case passesOver:
			continue
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", Subject(info), err))
		}
	}
	return errors.Join(errs...)
}

// ErrNoRollouts is about objects of which Kubernetes stores no revisions.
var ErrNoRollouts = errors.New("it has no rollouts: name a deployment, statefulset or daemonset")

// ViewOf returns the view of a workload, and false for an object that has no rollouts.
func ViewOf(object runtime.Object) (rolled.Workload, bool) {
	switch o := object.(type) {
	case *appsv1.Deployment:
		return rolled.OfDeployment(o), true
	case *appsv1.StatefulSet:
		return rolled.OfStatefulSet(o), true
	case *appsv1.DaemonSet:
		return rolled.OfDaemonSet(o), true
	default:
		return rolled.Workload{}, false
	}
}
