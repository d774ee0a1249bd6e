package cluster_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liveconfig-csi/liveconfig/pkg/cli/cluster"
)

func TestAsCreated(t *testing.T) {
	t.Parallel()
	inTree := corev1.Volume{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{}}}
	csi := func(driver string) corev1.Volume {
		return corev1.Volume{Name: "config", VolumeSource: corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: driver}}}
	}
	pod := func(age int64, v corev1.Volume) *corev1.Pod {
		created := metav1.NewTime(time.Unix(1000-age, 0))
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: created}, Spec: corev1.PodSpec{Volumes: []corev1.Volume{v}}}
	}
	const ours = "csi.liveconfig.internal"
	edited := csi(ours)
	edited.CSI.VolumeAttributes = map[string]string{"configMap": "web"}
	tests := map[string]struct {
		template corev1.Volume
		pods     []*corev1.Pod
		want     corev1.Volume
	}{
		"no pods":                                    {inTree, nil, inTree},
		"a converted volume":                         {inTree, []*corev1.Pod{pod(1, csi(ours))}, csi(ours)},
		"the newest pod counts":                      {inTree, []*corev1.Pod{pod(1, inTree), pod(2, csi(ours))}, inTree},
		"a volume of another driver":                 {inTree, []*corev1.Pod{pod(1, csi("csi.example.org"))}, inTree},
		"a template that was edited since, as it is": {edited, []*corev1.Pod{pod(1, csi(ours))}, edited},
	}
	for name, test := range tests {
		got := cluster.AsCreated(&corev1.PodSpec{Volumes: []corev1.Volume{test.template}}, test.pods, ours)
		if diff := cmp.Diff([]corev1.Volume{test.want}, got.Volumes); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
