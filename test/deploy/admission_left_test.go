package deploy

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liveconfig-csi/liveconfig/pkg/cli/admission"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/selection"
)

// wantReasons checks what the policy writes into pods about volumes that stay.
func (p *policies) wantReasons(t *testing.T, both string) {
	t.Helper()
	configMaps := p.namespaceWith(t, "configMaps")
	p.awaitConversion(t, configMaps, aConfigMap)
	projected := func(of corev1.VolumeProjection) corev1.VolumeSource {
		return corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{of}}}
	}
	token := projected(corev1.VolumeProjection{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}})
	downward := projected(corev1.VolumeProjection{DownwardAPI: &corev1.DownwardAPIProjection{}})
	withMount := func(pod *corev1.Pod, m corev1.VolumeMount) *corev1.Pod {
		m.Name, m.MountPath = "volume-0", "/volume-0"
		pod.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "A", Value: "a"}}
		pod.Spec.Containers[0].VolumeMounts[0] = m
		return pod
	}
	renamed := podOf(aConfigMap, token)
	renamed.Spec.Volumes[1].Name, renamed.Spec.Containers[0].VolumeMounts[1].Name = "kube-api-access-abcde", "kube-api-access-abcde"
	script, odd := *aConfigMap.ConfigMap, *aConfigMap.ConfigMap
	script.DefaultMode, odd.Items = new(int32(0o555)), []corev1.KeyToPath{{Key: "a", Path: "a\nb"}}
	many := make([]corev1.VolumeSource, 200)
	for i := range many {
		many[i] = token
	}
	listed := strings.Repeat("volume-%d: has a serviceAccountToken; ", 8) + "and 192 more"
	for name, test := range map[string]struct {
		namespace, label string
		pod              *corev1.Pod
		want             string
	}{
		"all are converted":       {both, "configMaps.secrets", podOf(aConfigMap, aSecret), ""},
		"others are not about":    {both, "configMaps.secrets", podOf(corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}), ""},
		"the token of Kubernetes": {both, "configMaps.secrets", renamed, ""},
		"a token":                 {both, "configMaps.secrets", podOf(aConfigMap, token), "volume-1: has a serviceAccountToken"},
		"several": {
			both, "configMaps.secrets", podOf(downward, token), "volume-0: has a downwardAPI; volume-1: has a serviceAccountToken",
		},
		"no Secrets": {configMaps, "configMaps", podOf(aConfigMap, aSecret), "volume-1: the label leaves out secrets"},
		"many items": {
			both, "configMaps.secrets", podWithItems(200, 201),
			"volume-0: the volumes of the pod list more than 400 items: use kubectl liveconfig convert; volume-1: the volumes of the pod list more than 400 items: use kubectl liveconfig convert",
		},
		"many mounts": {
			both, "configMaps.secrets", podWithMounts(1, 200),
			"volume-0: the pod has too many volumes and mounts: use kubectl liveconfig convert",
		},
		"an expression": {
			both, "configMaps.secrets", withMount(podOf(aConfigMap), corev1.VolumeMount{SubPathExpr: "$(A)"}),
			"volume-0: a container mounts it by subPathExpr, or has a mountPath with ..",
		},
		"a script": {
			both, "configMaps.secrets", withMount(podOf(corev1.VolumeSource{ConfigMap: &script}), corev1.VolumeMount{SubPath: "a"}),
			"volume-0: a subPath mount of files that can be executed",
		},
		"unusual": {
			both, "configMaps.secrets", podOf(corev1.VolumeSource{ConfigMap: &odd}), "volume-0: kubectl liveconfig adopt shows the reason",
		},
		"many volumes": {both, "configMaps.secrets", podOf(many...), fmt.Sprintf(listed, 0, 1, 2, 3, 4, 5, 6, 7)},
	} {
		for _, annotations := range []map[string]string{nil, {"mine": "1"}, {"mine": "1", admission.Left: "old"}} {
			pod := test.pod.DeepCopy()
			pod.Annotations = annotations
			dry := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
			created, err := p.cluster.Client().CoreV1().Pods(test.namespace).Create(t.Context(), pod, dry)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			got, isSet := created.Annotations[admission.Left]
			if got != test.want || isSet != (test.want != "") || created.Annotations["mine"] != annotations["mine"] {
				t.Errorf("%s: annotations %q, want that left-in-tree is %q", name, created.Annotations, test.want)
			}
			p.wantForeseen(t, name, test.label, pod, created.Spec.Volumes)
			p.wantReasonsForeseen(t, name, test.label, pod, got)
		}
	}
}

// wantReasonsForeseen wants that the plugin foresees of which volumes the policy writes that they stay.
func (p *policies) wantReasonsForeseen(t *testing.T, name, label string, pod *corev1.Pod, got string) {
	t.Helper()
	w, _ := selection.AsWorkload(pod)
	listed := 0
	for _, v := range (admission.Policy{Driver: p.driver, Namespace: "shop", Value: label}).Volumes(w) {
		stays := v.CSI == nil && !strings.HasPrefix(v.Name, "kube-api-access-")
		if isListed := strings.Contains("; "+got, "; "+v.Name+": "); isListed != stays && (isListed || listed < 8) {
			t.Errorf("%s: volume %s stays: %t (%s), and the policy writes %q", name, v.Name, stays, v.Reason, got)
		}
		if stays {
			listed++
		}
	}
}
