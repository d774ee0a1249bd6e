package observe_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/liveconfig-csi/liveconfig/pkg/cli/observe"
)

// TestFailedMounts: a pod can wait for volumes of several drivers, and for each the kubelet has another reason.
func TestFailedMounts(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	var events []runtime.Object
	for i, e := range []struct{ pod, message string }{
		{"one", `MountVolume.SetUp failed for volume "config" : rpc error: code = NotFound desc = configmap "old" not found`},
		{"one", `MountVolume.SetUp failed for volume "config" : rpc error: code = NotFound desc = configmap "app" not found` + "\nmore"},
		{"one", `MountVolume.SetUp failed for volume "config-2" : rpc error: code = PermissionDenied desc = you may not; to allow it, apply:`},
		{"one", `MountVolume.MountDevice failed for volume "data" : rpc error: code = Internal desc = the disk is on fire for volume "config"`},
		{"one", `Unable to attach or mount volumes: unmounted volumes=[config data], unattached volumes=[], failed to process volumes=[]: timed out`},
		{"two", `MountVolume.SetUp failed for volume "config" : kubernetes.io/csi: driver name csi.liveconfig.internal not found`},
		{"other", `MountVolume.SetUp failed for volume "config" : not asked for`},
	} {
		events = append(events, &corev1.Event{
			ObjectMeta:     metav1.ObjectMeta{Namespace: "shop", Name: string(rune('a' + i))},
			InvolvedObject: corev1.ObjectReference{UID: types.UID(e.pod)}, Reason: "FailedMount", Message: e.message,
			LastTimestamp: metav1.NewTime(noon.Add(time.Duration(i) * time.Second)),
		})
	}
	c := &observe.Cluster{Client: fake.NewClientset(events...)}
	pods := []*observe.Pod{
		{Pod: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "one"}}}, {Pod: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "two"}}},
	}
	want := observe.Mounts{
		"one": {
			"config":   `configmap "app" not found`,
			"config-2": "you may not; see kubectl liveconfig grant",
			"data":     `the disk is on fire for volume "config"`,
		},
		"two": {"config": `MountVolume.SetUp failed for volume "config" : kubernetes.io/csi: driver name csi.liveconfig.internal not found`},
	}
	if diff := cmp.Diff(want, c.FailedMounts(t.Context(), "shop", pods)); diff != "" {
		t.Errorf("FailedMounts (-want +got):\n%s", diff)
	}
}

func TestAsCreated(t *testing.T) {
	t.Parallel()
	inTree := corev1.Volume{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{}}}
	csi := func(driver string) corev1.Volume {
		return corev1.Volume{Name: "config", VolumeSource: corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: driver}}}
	}
	pod := func(age int64, v corev1.Volume) *observe.Pod {
		created := metav1.NewTime(time.Unix(1000-age, 0))
		meta, spec := metav1.ObjectMeta{CreationTimestamp: created}, corev1.PodSpec{Volumes: []corev1.Volume{v}}
		return &observe.Pod{Pod: &corev1.Pod{ObjectMeta: meta, Spec: spec}}
	}
	const ours = "csi.liveconfig.internal"
	edited := csi(ours)
	edited.CSI.VolumeAttributes = map[string]string{"configMap": "web"}
	tests := map[string]struct {
		template corev1.Volume
		pods     []*observe.Pod
		want     corev1.Volume
	}{
		"no pods":                                    {inTree, nil, inTree},
		"a converted volume":                         {inTree, []*observe.Pod{pod(1, csi(ours))}, csi(ours)},
		"the newest pod counts":                      {inTree, []*observe.Pod{pod(1, inTree), pod(2, csi(ours))}, inTree},
		"a volume of another driver":                 {inTree, []*observe.Pod{pod(1, csi("csi.example.org"))}, inTree},
		"a template that was edited since, as it is": {edited, []*observe.Pod{pod(1, csi(ours))}, edited},
	}
	for name, test := range tests {
		got := observe.AsCreated(&corev1.PodSpec{Volumes: []corev1.Volume{test.template}}, test.pods, ours)
		if diff := cmp.Diff([]corev1.Volume{test.want}, got.Volumes); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
