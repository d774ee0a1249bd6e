package workload_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liveconfig-csi/liveconfig/pkg/rollout/workload"
)

func meta() metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: "shop", Name: "web", UID: "u-1", ResourceVersion: "42",
		Labels: map[string]string{"app": "web"}, Annotations: map[string]string{"a": "b"},
	}
}

func template() corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web:1"}}},
	}
}

func TestViews(t *testing.T) {
	t.Parallel()
	view := func(kind workload.Kind) workload.Workload {
		m, pods := meta(), template()
		return workload.Workload{
			Ref: workload.Ref{Kind: kind, Namespace: "shop", Name: "web"}, UID: "u-1", ResourceVersion: "42",
			Labels: m.Labels, Annotations: m.Annotations, Template: &pods,
			// Nothing is known of an object as it is created: it has a generation, and no status.
			Progress: workload.Progress{},
		}
	}
	created, deleted := meta(), meta()
	created.Generation, deleted.Generation = 1, 1
	deleted.DeletionTimestamp = new(metav1.Now())
	paused, deleting := view(workload.Deployment), view(workload.DaemonSet)
	paused.Paused, deleting.Deleting = true, true
	ordered := view(workload.StatefulSet)
	ordered.Ordered = &workload.Ordered{Last: 0}

	tests := map[string]struct{ got, want workload.Workload }{
		"a Deployment": {
			workload.OfDeployment(&appsv1.Deployment{ObjectMeta: created, Spec: appsv1.DeploymentSpec{Template: template()}}),
			view(workload.Deployment),
		},
		"a paused Deployment": {
			workload.OfDeployment(&appsv1.Deployment{
				ObjectMeta: created, Spec: appsv1.DeploymentSpec{Template: template(), Paused: true},
			}),
			paused,
		},
		"a StatefulSet": {
			workload.OfStatefulSet(&appsv1.StatefulSet{ObjectMeta: created, Spec: appsv1.StatefulSetSpec{Template: template()}}),
			ordered,
		},
		"a DaemonSet": {
			workload.OfDaemonSet(&appsv1.DaemonSet{ObjectMeta: created, Spec: appsv1.DaemonSetSpec{Template: template()}}),
			view(workload.DaemonSet),
		},
		"one that is being deleted": {
			workload.OfDaemonSet(&appsv1.DaemonSet{ObjectMeta: deleted, Spec: appsv1.DaemonSetSpec{Template: template()}}),
			deleting,
		},
	}
	for name, test := range tests {
		if diff := cmp.Diff(test.want, test.got); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
	}
}

func TestTheTemplateIsNotCopied(t *testing.T) {
	t.Parallel()
	d := &appsv1.Deployment{ObjectMeta: meta()}
	if got := workload.OfDeployment(d).Template; got != &d.Spec.Template {
		t.Errorf("Template = %p, want the object's own %p", got, &d.Spec.Template)
	}
}

func TestNamesAsKubectlHasThem(t *testing.T) {
	t.Parallel()
	for want, kind := range map[string]workload.Kind{
		"deployment/web": workload.Deployment, "statefulset/web": workload.StatefulSet, "daemonset/web": workload.DaemonSet,
	} {
		if got := (workload.Ref{Kind: kind, Namespace: "shop", Name: "web"}).String(); got != want {
			t.Errorf("String = %s, want %s", got, want)
		}
	}
}

// TestOwnersHoldNothingBack: a controlling owner would adopt the copies, and a blocking one would wait for them when it is
// deleted in the foreground.
func TestOwnersHoldNothingBack(t *testing.T) {
	t.Parallel()
	w := workload.OfStatefulSet(&appsv1.StatefulSet{ObjectMeta: meta()})
	r := workload.OfReplicaSet(&appsv1.ReplicaSet{ObjectMeta: meta()})
	c, _ := workload.OfControllerRevision(revision(meta(), nil, patch(t, template())))
	for kind, got := range map[string]metav1.OwnerReference{
		"StatefulSet": w.OwnerReference(), "ReplicaSet": r.OwnerReference(), "ControllerRevision": c.OwnerReference(),
	} {
		want := metav1.OwnerReference{APIVersion: "apps/v1", Kind: kind, Name: "web", UID: "u-1"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("OwnerReference of a %s (-want +got)\n%s", kind, diff)
		}
	}
}
