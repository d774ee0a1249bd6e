// Package fakekubelet plays the part of a kubelet towards a CSI driver: it takes a pod, lays out the directories of its
// volumes, and makes the calls that a kubelet makes for inline volumes.
//
// It does not know the driver behind the socket, nor containers.
package fakekubelet

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"maps"
	"path/filepath"
	"strconv"

	"github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"
)

// VolumeID returns the ID that a kubelet gives to an inline volume.
func VolumeID(pod *corev1.Pod, volume string) string {
	return fmt.Sprintf("csi-%x", sha256.Sum256([]byte(string(pod.UID)+volume)))
}

// TargetPath returns where a kubelet with the root directory dir wants an inline volume.
func TargetPath(dir string, pod *corev1.Pod, volume string) string {
	return filepath.Join(dir, "pods", string(pod.UID), "volumes", "kubernetes.io~csi", volume, "mount")
}

// PublishRequest returns the request that a kubelet makes for an inline volume of a pod when the CSIDriver object has
// podInfoOnMount. The pod must have its UID.
func PublishRequest(dir string, pod *corev1.Pod, volume corev1.Volume) *csi.NodePublishVolumeRequest {
	attributes := maps.Clone(volume.CSI.VolumeAttributes)
	if attributes == nil {
		attributes = map[string]string{}
	}
	maps.Copy(attributes, map[string]string{
		"csi.storage.k8s.io/ephemeral":           "true",
		"csi.storage.k8s.io/pod.name":            pod.Name,
		"csi.storage.k8s.io/pod.namespace":       pod.Namespace,
		"csi.storage.k8s.io/pod.uid":             string(pod.UID),
		"csi.storage.k8s.io/serviceAccount.name": cmp.Or(pod.Spec.ServiceAccountName, "default"),
	})
	return &csi.NodePublishVolumeRequest{
		VolumeId:      VolumeID(pod, volume.Name),
		TargetPath:    TargetPath(dir, pod, volume.Name),
		VolumeContext: attributes,
		Readonly:      volume.CSI.ReadOnly != nil && *volume.CSI.ReadOnly,
		VolumeCapability: &csi.VolumeCapability{
			AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
			AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{VolumeMountGroup: fsGroup(pod)}},
		},
	}
}

func fsGroup(pod *corev1.Pod) string {
	if s := pod.Spec.SecurityContext; s != nil && s.FSGroup != nil {
		return strconv.FormatInt(*s.FSGroup, 10)
	}
	return ""
}
