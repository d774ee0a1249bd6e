package workload

import (
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"
)

// RevisionKind is the kind of an object in which Kubernetes keeps a revision of a workload, as the
// API spells it.
type RevisionKind string

// The kinds of revisions: the first is a Deployment's, the second a StatefulSet's or DaemonSet's.
const (
	ReplicaSet         RevisionKind = "ReplicaSet"
	ControllerRevision RevisionKind = "ControllerRevision"
)

// Revision is a template that a workload has or had.
type Revision struct {
	Kind      RevisionKind
	Namespace string
	Name      string
	UID       types.UID
	// Owner is the workload, and empty when that is gone and has left the revision behind.
	Owner types.UID
	// Number grows from one revision of a workload to the next, and that of an old one that is used
	// again with it. It is 0 until the Deployment's controller has given it.
	Number   int64
	Template *corev1.PodTemplateSpec
	// Deleting is a revision that is about to go.
	Deleting bool
	// Live is a ReplicaSet that has pods, or should have some. A ControllerRevision does not show
	// whether pods are of it, so it is never Live.
	Live bool
}

// OwnerReference returns what makes an object stay as long as the revision does. It neither
// controls the object nor protects the revision from going first.
func (r Revision) OwnerReference() metav1.OwnerReference {
	return ownerReference(string(r.Kind), r.Name, r.UID)
}

// numberAnnotation is where the Deployment's controller writes the number of a revision.
const numberAnnotation = "deployment.kubernetes.io/revision"

// OfReplicaSet returns the view of a ReplicaSet. One that stands on its own has no Owner.
func OfReplicaSet(s *appsv1.ReplicaSet) Revision {
	r := revision(ReplicaSet, &s.ObjectMeta)
	if number, err := strconv.ParseInt(s.Annotations[numberAnnotation], 10, 64); err == nil {
		r.Number = number
	}
	r.Template = &s.Spec.Template
	r.Live = wanted(s.Spec.Replicas) > 0 || s.Status.Replicas > 0
	return r
}

// OfControllerRevision returns the view of a ControllerRevision, and false for one that is not the
// whole template of a StatefulSet or DaemonSet: anyone may store anything in such objects.
func OfControllerRevision(c *appsv1.ControllerRevision) (Revision, bool) {
	if !ownedByWorkload(metav1.GetControllerOfNoCopy(c)) {
		return Revision{}, false
	}
	template, ok := templateIn(c.Data.Raw)
	if !ok {
		return Revision{}, false
	}
	r := revision(ControllerRevision, &c.ObjectMeta)
	r.Number = c.Revision
	r.Template = template
	return r, true
}

// ownedByWorkload reports whether the controller is a StatefulSet or DaemonSet. None is well too:
// another may adopt what a workload has left behind.
func ownedByWorkload(owner *metav1.OwnerReference) bool {
	if owner == nil {
		return true
	}
	group := schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind).Group
	kind := Kind(owner.Kind)
	return group == appsv1.GroupName && (kind == StatefulSet || kind == DaemonSet)
}

// templateIn reads the data of a ControllerRevision: a patch that replaces the template of the
// workload.
func templateIn(raw []byte) (*corev1.PodTemplateSpec, bool) {
	var patch struct {
		Spec struct {
			Template *struct {
				corev1.PodTemplateSpec `json:",inline"`

				Patch string `json:"$patch"`
			} `json:"template"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(raw, &patch); err != nil || patch.Spec.Template == nil {
		return nil, false
	}
	template := patch.Spec.Template
	return &template.PodTemplateSpec, template.Patch == "replace"
}

func revision(kind RevisionKind, meta *metav1.ObjectMeta) Revision {
	r := Revision{
		Kind:      kind,
		Namespace: meta.Namespace,
		Name:      meta.Name,
		UID:       meta.UID,
		Deleting:  meta.DeletionTimestamp != nil,
	}
	if owner := metav1.GetControllerOfNoCopy(meta); owner != nil {
		r.Owner = owner.UID
	}
	return r
}
