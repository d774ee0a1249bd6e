package deploy

import (
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/liveconfig-csi/liveconfig/pkg/rollout/trigger"
)

// revision is what a revision in the tests differs in from one that the controller deletes.
type revision struct {
	config   string
	volume   corev1.VolumeSource
	replicas int32
	owner    string
}

func (r revision) template() corev1.PodTemplateSpec {
	made := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}}}
	if r.config != "" {
		made.Annotations = map[string]string{trigger.ConfigAnnotation: r.config}
	}
	made.Spec.Containers = []corev1.Container{{Name: "web", Image: "web"}}
	made.Spec.Volumes = []corev1.Volume{{Name: "a", VolumeSource: r.volume}}
	return made
}

func (r revision) meta(name, ownerKind string) metav1.ObjectMeta {
	owner := metav1.OwnerReference{APIVersion: "apps/v1", Kind: ownerKind, Name: "web", UID: "a", Controller: new(true)}
	switch r.owner {
	case "nobody":
		return metav1.ObjectMeta{Name: name}
	case "somebody else":
		owner.APIVersion, owner.Kind = "argoproj.io/v1alpha1", "Rollout"
	case "not in control":
		owner.Controller = nil
	}
	return metav1.ObjectMeta{Name: name, OwnerReferences: []metav1.OwnerReference{owner}}
}

// create makes an administrator create both kinds of a revision.
func (by *thief) create(t *testing.T, name string, r revision) {
	t.Helper()
	apps := by.cluster.Client().AppsV1()
	template := r.template()
	selector := &metav1.LabelSelector{MatchLabels: template.Labels}
	_, err := apps.ReplicaSets(by.team).Create(t.Context(), &appsv1.ReplicaSet{
		ObjectMeta: r.meta(name, "Deployment"), Spec: appsv1.ReplicaSetSpec{Replicas: &r.replicas, Selector: selector, Template: template},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	data := fmt.Sprintf(`{"spec": {"template": %s}}`, quoted(t, template))
	data = strings.Replace(data, `"template": {`, `"template": {"$patch": "replace", `, 1)
	_, err = apps.ControllerRevisions(by.team).Create(t.Context(), &appsv1.ControllerRevision{
		ObjectMeta: r.meta(name, "StatefulSet"), Revision: 1, Data: runtime.RawExtension{Raw: []byte(data)},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// TestTheControllerMayDeleteOnlyRevisionsThatNameSources tries to delete others, and to write them.
func TestTheControllerMayDeleteOnlyRevisionsThatNameSources(t *testing.T) {
	t.Parallel()
	by := newThief(t)
	const config = `{"configmap/foo":"foo-0123456789","secret/gone":""}`
	named := func(name string) corev1.VolumeSource {
		return corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: name}}}
	}
	sources := func(text string) corev1.VolumeSource {
		return corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: "csi.liveconfig.internal", VolumeAttributes: map[string]string{"sources": text}}}
	}
	const other = "a revision that names a source"
	tests := map[string]struct {
		revision
		want string // Empty: it can be deleted.
	}{
		"plain":           {revision{config: config, volume: named("foo")}, ""},
		"in-an-attribute": {revision{config: config, volume: sources("[{configMap: {name: foo}}]")}, ""},
		"with-escapes":    {revision{config: config, volume: sources(`[{configMap: {name: "f\u006fo"}}]`)}, ""},
		"pointed":         {revision{config: config, volume: named("foo-0123456789")}, other},
		"pointed-by-text": {revision{config: config, volume: sources("[{configMap: {name: foo-0123456789}}]")}, other},
		"of-another":      {revision{config: config, volume: named("bar")}, other},
		"of-a-part":       {revision{config: config, volume: named("fo")}, other},
		"of-what-is-gone": {revision{config: config, volume: named("gone")}, other},
		"untouched":       {revision{volume: named("foo")}, other},
		"of-nobody":       {revision{config: config, volume: named("foo"), owner: "nobody"}, "revisions of workloads"},
		"of-a-rollout":    {revision{config: config, volume: named("foo"), owner: "somebody else"}, "revisions of workloads"},
		"uncontrolled":    {revision{config: config, volume: named("foo"), owner: "not in control"}, "revisions of workloads"},
	}
	for name, test := range tests {
		by.create(t, name, test.revision)
	}
	by.create(t, "probe", revision{})
	apps := by.client.AppsV1()
	sets, revisions := apps.ReplicaSets(by.team), apps.ControllerRevisions(by.team)
	awaitPolicy(t, func() error {
		return sets.Delete(t.Context(), "probe", metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}})
	})
	for name, test := range tests {
		for kind, remove := range map[string]func() error{
			"ReplicaSet":         func() error { return sets.Delete(t.Context(), name, metav1.DeleteOptions{}) },
			"ControllerRevision": func() error { return revisions.Delete(t.Context(), name, metav1.DeleteOptions{}) },
		} {
			err := remove()
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), "may only delete "+test.want) {
				t.Errorf("to delete the %s %s = %v, want %q", kind, name, err, test.want)
			}
		}
	}
	by.create(t, "live", revision{config: config, volume: named("foo"), replicas: 1})
	wantRefused(t, "delete a ReplicaSet with pods", sets.Delete(t.Context(), "live", metav1.DeleteOptions{}))
	scale := []byte(`{"spec": {"replicas": 7}}`)
	for what, subresources := range map[string][]string{"change": nil, "scale": {"scale"}, "write the status of": {"status"}} {
		_, err := sets.Patch(t.Context(), "live", types.MergePatchType, scale, metav1.PatchOptions{}, subresources...)
		if err == nil || !strings.Contains(err.Error(), "may only delete revisions") {
			t.Errorf("to %s a ReplicaSet = %v, want that the policy refuses it", what, err)
		}
	}
	if err := by.cluster.Client().AppsV1().ReplicaSets(by.team).Delete(t.Context(), "live", metav1.DeleteOptions{}); err != nil {
		t.Errorf("an administrator deletes a ReplicaSet: %v", err)
	}
}
