// Package workload has one view of Deployments, StatefulSets and DaemonSets, and one of the
// revisions that Kubernetes keeps of them: their templates, and how far their rollouts are.
//
// A view shares memory with the object it was made of and is only read.
//
// It does not know what is written on a workload, copies, clients or when something is rolled out.
package workload

import (
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Kind is a kind of workload, as the API spells it.
type Kind string

// The kinds that have pod templates and revisions of them.
const (
	Deployment  Kind = "Deployment"
	StatefulSet Kind = "StatefulSet"
	DaemonSet   Kind = "DaemonSet"
)

// String returns the kind as kubectl takes it, such as deployment.
func (k Kind) String() string { return strings.ToLower(string(k)) }

// Ref names a workload. It is comparable. It is not an api.Ref, because that names an object
// with keys, which can be a source. So the compiler refuses a workload where a source is expected.
type Ref struct {
	Kind      Kind
	Namespace string
	Name      string
}

// String returns deployment/web, without the namespace.
func (r Ref) String() string { return r.Kind.String() + "/" + r.Name }

// Workload is what is known of a workload.
type Workload struct {
	Ref
	UID             types.UID
	ResourceVersion string
	Labels          map[string]string
	Annotations     map[string]string
	Template        *corev1.PodTemplateSpec
	// Paused is a Deployment that shall roll nothing out. The other kinds cannot be paused.
	Paused bool
	// Deleting is a workload that is about to go.
	Deleting bool
	Progress Progress
	// Ordered is nil if Kubernetes replaces broken pods itself, or if no pod waits for them.
	Ordered *Ordered
}

// OwnerReference returns what makes an object go with the workload. It neither controls the object
// nor protects the workload from going first.
func (w Workload) OwnerReference() metav1.OwnerReference {
	return ownerReference(string(w.Kind), w.Name, w.UID)
}

func ownerReference(kind, name string, uid types.UID) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: appsv1.SchemeGroupVersion.String(), Kind: kind, Name: name, UID: uid}
}

// OfDeployment returns the view of a Deployment.
func OfDeployment(d *appsv1.Deployment) Workload {
	w := of(Deployment, &d.ObjectMeta, &d.Spec.Template)
	w.Paused = d.Spec.Paused
	w.Progress = deploymentProgress(d)
	return w
}

// OfStatefulSet returns the view of a StatefulSet.
func OfStatefulSet(s *appsv1.StatefulSet) Workload {
	w := of(StatefulSet, &s.ObjectMeta, &s.Spec.Template)
	w.Progress = statefulSetProgress(s)
	w.Ordered = orderedOf(s)
	return w
}

// OfDaemonSet returns the view of a DaemonSet.
func OfDaemonSet(d *appsv1.DaemonSet) Workload {
	w := of(DaemonSet, &d.ObjectMeta, &d.Spec.Template)
	w.Progress = daemonSetProgress(d)
	return w
}

func of(kind Kind, meta *metav1.ObjectMeta, template *corev1.PodTemplateSpec) Workload {
	return Workload{
		Ref:             Ref{Kind: kind, Namespace: meta.Namespace, Name: meta.Name},
		UID:             meta.UID,
		ResourceVersion: meta.ResourceVersion,
		Labels:          meta.Labels,
		Annotations:     meta.Annotations,
		Template:        template,
		Deleting:        meta.DeletionTimestamp != nil,
	}
}
