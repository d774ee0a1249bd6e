package fakenodes

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/test/kit/node"
)

func mapRef() api.Ref { return api.Ref{Kind: api.ConfigMap, Namespace: "ns", Name: "c"} }

func secretRef() api.Ref { return api.Ref{Kind: api.Secret, Namespace: "ns", Name: "s"} }

func TestUsesOf(t *testing.T) {
	t.Parallel()
	ref := func(name string) corev1.LocalObjectReference { return corev1.LocalObjectReference{Name: name} }
	items := []corev1.KeyToPath{{Key: "a", Path: "x"}, {Key: "b", Path: "y"}}
	csi := func(driver string, attributes map[string]string) corev1.PodSpec {
		return corev1.PodSpec{Volumes: []corev1.Volume{{VolumeSource: corev1.VolumeSource{
			CSI: &corev1.CSIVolumeSource{Driver: driver, VolumeAttributes: attributes},
		}}}}
	}
	volume := func(source corev1.VolumeSource) corev1.PodSpec {
		return corev1.PodSpec{Volumes: []corev1.Volume{{VolumeSource: source}}}
	}
	tests := map[string]struct {
		spec corev1.PodSpec
		want []use
	}{
		"nothing": {},
		"what every pod is given": {spec: corev1.PodSpec{Volumes: []corev1.Volume{{
			Name: "kube-api-access-x", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
				Sources: []corev1.VolumeProjection{{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: ref("kube-root-ca.crt")}}},
			}},
		}}}},
		"a volume of a ConfigMap with items": {
			volume(corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: ref("c"), Items: items}}),
			[]use{{ref: mapRef(), keys: []string{"a", "b"}, without: noVolumes}},
		},
		"an optional volume of a Secret": {
			volume(corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "s", Optional: new(true)}}),
			[]use{{ref: secretRef(), optional: true, without: noVolumes}},
		},
		"a projected volume of both": {
			volume(corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
				{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: ref("c")}},
				{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}},
				{Secret: &corev1.SecretProjection{LocalObjectReference: ref("s"), Items: items[:1]}},
			}}}),
			[]use{{ref: mapRef(), without: noVolumes}, {ref: secretRef(), keys: []string{"a"}, without: noVolumes}},
		},
		"a volume of ours in the short form": {
			csi(node.DriverName, map[string]string{"secret": "s", "optional": "true"}),
			[]use{{ref: secretRef(), optional: true, without: noVolumes}},
		},
		"a volume of ours in the long form": {
			csi(node.DriverName, map[string]string{"sources": "- configMap: {name: c, items: [{key: a, path: x}]}\n- secret: {name: s, namespace: other}"}),
			[]use{
				{ref: mapRef(), keys: []string{"a"}, without: noVolumes},
				{ref: api.Ref{Kind: api.Secret, Namespace: "other", Name: "s"}, without: noVolumes},
			},
		},
		"a volume of another's": {spec: csi("theirs", map[string]string{"configMap": "c"})},
		"an environment, of init containers too": {
			corev1.PodSpec{
				InitContainers: []corev1.Container{{EnvFrom: []corev1.EnvFromSource{
					{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: ref("c")}},
					{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: ref("s"), Optional: new(true)}},
				}}},
				Containers: []corev1.Container{{Env: []corev1.EnvVar{
					{Name: "A", Value: "plain"},
					{Name: "B", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: ref("c"), Key: "b"}}},
					{Name: "C", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: ref("s"), Key: "c"}}},
				}}},
			},
			[]use{
				{ref: mapRef(), without: noEnvironment},
				{ref: secretRef(), optional: true, without: noEnvironment},
				{ref: mapRef(), keys: []string{"b"}, without: noEnvironment},
				{ref: secretRef(), keys: []string{"c"}, without: noEnvironment},
			},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := usesOf(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns"}, Spec: test.spec})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(use{})); diff != "" {
				t.Errorf("uses (-want +got):\n%s", diff)
			}
		})
	}

	_, err := usesOf(&corev1.Pod{Spec: csi(node.DriverName, map[string]string{"no": "such"})})
	if waits, waiting := asWaiting(err); !waiting || waits.reason != noVolumes {
		t.Errorf("error of wrong attributes = %v, want that the pod has no volumes", err)
	}
}
