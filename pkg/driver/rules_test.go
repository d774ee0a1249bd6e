package driver_test

import (
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
)

// TestForgedPodsAreRefused is trap 14: what a request says about its pod is believed only if the target path, which is
// always the kubelet's, is one of that pod.
func TestForgedPodsAreRefused(t *testing.T) {
	t.Parallel()
	tests := map[string]string{
		"the UID of another pod":  "99999999-2222-3333-4444-555555555555",
		"the beginning of a UID":  "11111111",
		"dots":                    "..",
		"a way around":            "../pods/" + podUID,
		"the directory before it": ".",
	}
	for name, uid := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			volumes := &fakeVolumes{}
			request := publishRequest()
			request.VolumeContext["csi.storage.k8s.io/pod.uid"] = uid
			request.VolumeContext["csi.storage.k8s.io/pod.namespace"] = "kube-system"
			_, err := csi.NewNodeClient(connect(t, volumes, noUsage)).NodePublishVolume(t.Context(), request)
			checkStatus(t, err, codes.InvalidArgument, `target_path "`+target+`" is not one of pod UID "`+uid+
				`": set podInfoOnMount: true in the CSIDriver object csi.example.test`)
			if volumes.touched() {
				t.Error("a forged request got through")
			}
		})
	}
}

// TestALongForgedUIDIsNotRepeatedWhole: it is the user's, and ends up in an Event and in the log.
func TestALongForgedUIDIsNotRepeatedWhole(t *testing.T) {
	t.Parallel()
	request := publishRequest()
	request.VolumeContext["csi.storage.k8s.io/pod.uid"] = strings.Repeat("\n", 1<<20)
	_, err := csi.NewNodeClient(connect(t, &fakeVolumes{}, noUsage)).NodePublishVolume(t.Context(), request)
	checkStatus(t, err, codes.InvalidArgument, `target_path "`+target+`" is not one of pod UID "`+strings.Repeat(`\n`, 64)+
		`": set podInfoOnMount: true in the CSIDriver object csi.example.test`)
}
