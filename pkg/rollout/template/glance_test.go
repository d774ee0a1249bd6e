package template_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/template"
)

// TestGlance finds every name that a template may use, with those that attributes only mention.
func TestGlance(t *testing.T) {
	t.Parallel()
	in := volumes(
		csi(ours.Driver, map[string]string{"sources": "- configMap: {name: a-1}\n- secret: {name: \"b-2\", items: [{key: c-3, path: x/d-4.conf}]}"}),
		csi(ours.Driver, map[string]string{"configMap": "e-5"}), csi("other", map[string]string{"configMap": "f-6"}),
	)
	in.Spec.Containers = []corev1.Container{{EnvFrom: []corev1.EnvFromSource{{
		SecretRef: &corev1.SecretEnvSource{LocalObjectReference: reference("g-7")},
	}}}}
	uses, mentioned := template.Glance(in, ours, func(name string) bool { return len(name) > 1 && strings.Contains(name, "-") })
	if len(uses) != 1 || uses[0].Object != secret("g-7") {
		t.Errorf("uses = %v, want that of the variable", uses)
	}
	want := map[api.Ref]bool{}
	for _, name := range []string{"a-1", "b-2", "c-3", "d-4.conf", "e-5"} {
		want[configMap(name)], want[secret(name)] = true, true
	}
	if diff := cmp.Diff(want, mentioned); diff != "" {
		t.Errorf("mentioned (-want +got)\n%s", diff)
	}
	if got, want := len(template.OnlyVolumes(in, ours).Spec.Volumes), 2; got != want {
		t.Errorf("OnlyVolumes has %d volumes, want %d", got, want)
	}
}

// TestTooManyAttributesAreNotRead: together they may not have more than is read, and other fields are read all the same.
func TestTooManyAttributesAreNotRead(t *testing.T) {
	t.Parallel()
	slow := csi(ours.Driver, map[string]string{"sources": "[" + strings.Repeat("{},", 21_000) + "]"})
	foo := corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: reference("foo")}}
	in := volumes(slow, slow, slow, slow, foo)
	began := time.Now()
	uses, err := template.Uses(in, ours)
	if err == nil || !strings.Contains(err.Error(), "more than the 131072 that are read") {
		t.Errorf("Uses = %v, want an error that says how much is read", err)
	}
	if len(uses) != 1 || uses[0].Object.Name != "foo" {
		t.Errorf("uses = %v, want foo", uses)
	}
	t.Logf("it took %s", time.Since(began))
	if size := template.Size(in, ours); size < 4*63_000 {
		t.Errorf("Size = %d, want that of all attributes", size)
	}
}
