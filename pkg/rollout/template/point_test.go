package template_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/liveconfig-csi/liveconfig/pkg/rollout/template"
)

// copies are what the templates here are pointed to.
func copies() names {
	return names{
		configMap("foo"): "foo-0123456789", secret("foo"): "foo-9876543210", secret("tls"): "tls-0123456789",
		configMap("name"): "name-0123456789", configMap("1e"): "1e-0123456789", configMap("2"): "2-0123456789",
		configMap("3"): "4e5",
	}
}

func TestPointReachesEveryUse(t *testing.T) {
	t.Parallel()
	everything := containers(
		[]corev1.EnvFromSource{
			{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: reference("foo")}},
			{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: reference("foo")}},
		},
		[]corev1.EnvVar{configMapKey("foo", "a", nil), configMapKey("bar", "a", nil), secretKey("foo", "a", nil)},
	)
	everything.Spec.Volumes = volumes(
		corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: reference("foo")}},
		corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "foo"}},
		corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
			{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: reference("bar")}},
			{Secret: &corev1.SecretProjection{LocalObjectReference: reference("foo")}},
			{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: reference("foo")}},
		}}},
		csi(ours.Driver, map[string]string{"configMap": "foo"}),
		csi(ours.Driver, map[string]string{"secret": "foo", "namespace": "default"}),
		csi(ours.Driver, map[string]string{"sources": "[{secret: {name: foo}}, {configMap: {name: foo}}]"}),
		csi(ours.Driver, map[string]string{"configMap": "foo", "namespace": "other"}),
		csi("csi.example.com", map[string]string{"configMap": "foo"}),
	).Spec.Volumes
	const volume, configMapCopy, secretCopy = "/spec/volumes/", "foo-0123456789", "foo-9876543210"
	want := []template.Change{
		{Pointer: volume + "0/configMap/name", To: configMapCopy},
		{Pointer: volume + "1/secret/secretName", To: secretCopy},
		{Pointer: volume + "2/projected/sources/1/secret/name", To: secretCopy},
		{Pointer: volume + "2/projected/sources/2/configMap/name", To: configMapCopy},
		{Pointer: volume + "3/csi/volumeAttributes/configMap", To: configMapCopy},
		{Pointer: volume + "4/csi/volumeAttributes/secret", To: secretCopy},
		{
			Pointer: volume + "5/csi/volumeAttributes/sources",
			To:      "[{secret: {name: foo-9876543210}}, {configMap: {name: foo-0123456789}}]",
		},
	}
	for _, at := range []string{"/spec/initContainers/0/", "/spec/initContainers/1/", "/spec/containers/0/"} {
		want = append(want,
			template.Change{Pointer: at + "envFrom/0/configMapRef/name", To: configMapCopy},
			template.Change{Pointer: at + "envFrom/1/secretRef/name", To: secretCopy},
			template.Change{Pointer: at + "env/0/valueFrom/configMapKeyRef/name", To: configMapCopy},
			template.Change{Pointer: at + "env/2/valueFrom/secretKeyRef/name", To: secretCopy},
		)
	}
	got, pointed, err := point(t, everything, copies())
	if err != nil {
		t.Fatalf("Point: %v", err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Point (-want +got):\n%s", diff)
	}
	if again, _, err := point(t, pointed, copies()); err != nil || len(again) != 0 {
		t.Errorf("Point, of a template that is pointed already = %v, %v, want no changes", again, err)
	}
	_, back, err := point(t, pointed, swapped(copies()))
	if diff := cmp.Diff(everything, back); diff != "" || err != nil {
		t.Errorf("after pointing back: error %v (-want +got):\n%s", err, diff)
	}
}

func TestPointChangesNothing(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		in *corev1.PodTemplateSpec
		to names
	}{
		"no names":                     {in: short("configMap", "foo")},
		"an empty name":                {in: short("configMap", "foo"), to: names{configMap("foo"): ""}},
		"the name that is there":       {in: long("[{configMap: {name: foo}}]"), to: names{configMap("foo"): "foo"}},
		"the name of the other kind":   {in: short("configMap", "foo"), to: names{secret("foo"): "x"}},
		"the name of another object":   {in: long("[{configMap: {name: foo}}]"), to: names{configMap("fo"): "x"}},
		"objects of other namespaces":  {in: long("[{configMap: {name: foo, namespace: other}}]"), to: copies()},
		"a list that names no objects": {in: long("[]"), to: copies()},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got, _, err := point(t, tc.in, tc.to); err != nil || len(got) != 0 {
				t.Errorf("Point = %v, %v, want no changes", got, err)
			}
		})
	}
}

func TestPointRefuses(t *testing.T) {
	t.Parallel()
	full := "[{configMap: {name: foo}}] #" + strings.Repeat("x", 64<<10-28)
	var crowded strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&crowded, "- configMap: {name: foo, items: [{key: a, path: p%04d}]}\n", i)
	}
	tests := map[string]struct {
		in   *corev1.PodTemplateSpec
		to   names
		want string
	}{
		"what is not a name, in the short form": {
			in: short("configMap", "foo"), to: names{configMap("foo"): "No Name"},
			want: "point spec.volumes[0].csi.volumeAttributes[configMap] elsewhere: mistake in volumeAttributes: configMap: ",
		},
		"what is not a name, in the long form": {
			in: long("[{configMap: {name: foo}}]"), to: names{configMap("foo"): "x}}, {configMap: {name: y"},
			want: "point spec.volumes[0].csi.volumeAttributes[sources] elsewhere: mistake in volumeAttributes: sources[0].configMap.name: ",
		},
		"a list that no longer fits": {
			in: long(crowded.String()), to: copies(),
			want: "point spec.volumes[0].csi.volumeAttributes[sources] elsewhere: mistake in volumeAttributes: sources: Too long",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, _, err := point(t, tc.in, tc.to)
			if err == nil || !strings.Contains(err.Error(), tc.want) || len(got) != 0 {
				t.Errorf("Point = %d changes, error %.300v, want none and the error %s", len(got), err, tc.want)
			}
		})
	}
	t.Run("a full text is written again, without its comments", func(t *testing.T) {
		t.Parallel()
		got, _, err := point(t, long(full), copies())
		if err != nil || len(got) != 1 || got[0].To != "- configMap: {name: foo-0123456789}\n" {
			t.Errorf("Point = %d changes, error %v, want the list without its comment", len(got), err)
		}
	})
}
