package cluster_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/liveconfig-csi/liveconfig/pkg/cli/cluster"
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
	c := &cluster.Cluster{Client: fake.NewClientset(events...)}
	pods := []*corev1.Pod{{ObjectMeta: metav1.ObjectMeta{UID: "one"}}, {ObjectMeta: metav1.ObjectMeta{UID: "two"}}}
	want := cluster.Mounts{
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
