package admission_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/liveconfig-csi/liveconfig/pkg/cli/admission"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/selection"
)

func configMap(items ...corev1.KeyToPath) corev1.VolumeSource {
	return corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
		LocalObjectReference: corev1.LocalObjectReference{Name: "web"}, Items: items,
	}}
}

func mounts(list ...corev1.VolumeMount) []corev1.VolumeMount { return list }

// longMounts are places below the volume config that together are longer than what the policy writes.
func longMounts() []corev1.VolumeMount {
	list := mounts(corev1.VolumeMount{Name: "config", MountPath: "/a"})
	for i := range 32 {
		path := fmt.Sprintf("/a%s/%030d", strings.Repeat("/"+strings.Repeat("x", 199), 10), i)
		list = append(list, corev1.VolumeMount{Name: "scratch", MountPath: path})
	}
	return list
}

// TestReasons: the reader learns why a volume stays as it is. A test of the deployment compares with the policy which do.
func TestReasons(t *testing.T) {
	t.Parallel()
	tls := corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "tls"}}
	tests := map[string]struct {
		label       string
		annotations map[string]string
		os          corev1.OSName
		isBare      bool
		volume      corev1.VolumeSource
		mounts      []corev1.VolumeMount
		want        string
	}{
		"a ConfigMap":                        {label: "configMaps", volume: configMap()},
		"a Secret is left out":               {label: "configMaps", volume: tls, want: "which leaves out secrets"},
		"a Secret":                           {label: "configMaps.secrets", volume: tls},
		"a pod that opts out":                {label: "configMaps", annotations: map[string]string{admission.Label: "none"}, volume: configMap(), want: "annotation"},
		"another annotation":                 {label: "configMaps", annotations: map[string]string{admission.Label: "all"}, volume: configMap()},
		"a static pod":                       {label: "configMaps", annotations: map[string]string{"kubernetes.io/config.mirror": ""}, volume: configMap(), want: "static pod"},
		"a pod of Windows":                   {label: "configMaps", os: corev1.Windows, volume: configMap(), want: "for windows"},
		"a pod without controller":           {label: "configMaps", isBare: true, volume: configMap(), want: "the annotation liveconfig.internal/volumes: live on the pod makes"},
		"a pod without controller that asks": {label: "configMaps", isBare: true, annotations: map[string]string{admission.Label: "live"}, volume: configMap()},
		"a line break in a key":              {label: "configMaps", volume: configMap(corev1.KeyToPath{Key: "a\nb", Path: "a"}), want: "unusual characters"},
		"what the driver refuses": {
			label: "configMaps", volume: configMap(corev1.KeyToPath{Key: "a", Path: "../a"}), want: "items",
		},
		"a subPath":                             {label: "configMaps", volume: configMap(), mounts: mounts(corev1.VolumeMount{Name: "config", SubPath: "a"})},
		"a subPath that only a running pod has": {label: "configMaps", volume: configMap(), mounts: mounts(corev1.VolumeMount{Name: "config", SubPathExpr: "$(A)"}), want: "subPathExpr"},
		"a line break in a place": {label: "configMaps", volume: configMap(), want: "unusual characters", mounts: mounts(
			corev1.VolumeMount{Name: "config", MountPath: "/a"}, corev1.VolumeMount{Name: "scratch", MountPath: "/a/b\nc"})},
		"much text of places": {label: "configMaps", volume: configMap(), want: "places of mounts", mounts: longMounts()},
		"a script by subPath": {
			label: "configMaps", volume: configMap(corev1.KeyToPath{Key: "a", Path: "a", Mode: new(int32(0o755))}), want: "executed",
			mounts: mounts(corev1.VolumeMount{Name: "config", SubPath: "a"}),
		},
		"what no label converts": {label: "configMaps", want: "serviceAccountToken", volume: corev1.VolumeSource{
			Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
				{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}},
			}},
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec := &corev1.PodSpec{
				Volumes:    []corev1.Volume{{Name: "scratch"}, {Name: "config", VolumeSource: test.volume}},
				Containers: []corev1.Container{{Name: "main", VolumeMounts: test.mounts}},
			}
			if test.os != "" {
				spec.OS = &corev1.PodOS{Name: test.os}
			}
			var object runtime.Object = &appsv1.Deployment{Spec: appsv1.DeploymentSpec{
				Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Annotations: test.annotations}, Spec: *spec},
			}}
			if test.isBare {
				object = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: test.annotations}, Spec: *spec}
			}
			w, _ := selection.AsWorkload(object)
			policy := admission.Policy{Driver: "csi.example", Namespace: "shop", Value: test.label}
			all := policy.Volumes(w)
			if len(all) != 1 || all[0].Index != 1 || all[0].Name != "config" {
				t.Fatalf("volumes = %+v, want the second alone", all)
			}
			got := all[0]
			if (got.CSI != nil) != (test.want == "") || (got.Reason == "") != (test.want == "") || !strings.Contains(got.Reason, test.want) {
				t.Errorf("CSI = %v, reason = %q, want a reason with %q", got.CSI, got.Reason, test.want)
			}
		})
	}
}

// TestTemplate: a template gets the volumes of its new pods, and the caller's stays as it is.
func TestTemplate(t *testing.T) {
	t.Parallel()
	template := &corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		Containers: []corev1.Container{{Name: "main", VolumeMounts: mounts(corev1.VolumeMount{Name: "config", MountPath: "/part", SubPath: "a"})}},
		Volumes:    []corev1.Volume{{Name: "config", VolumeSource: configMap()}},
	}}
	before := template.DeepCopy()
	w := selection.Workload{Object: &appsv1.StatefulSet{}, Template: template}
	got := admission.Policy{Driver: "csi.example", Namespace: "shop", Value: "configMaps"}.Template(w)
	want := corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{
		Driver: "csi.example", ReadOnly: new(true),
		VolumeAttributes: map[string]string{"configMap": "web", "updatePolicy": "InPlace", "mountPoints": "[{path: a, ifAbsent: true}]"},
	}}
	if diff := cmp.Diff(want, got.Spec.Volumes[0].VolumeSource); diff != "" {
		t.Errorf("the volume of new pods (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(before, template); diff != "" {
		t.Errorf("the caller's template (-want +got):\n%s", diff)
	}
}
