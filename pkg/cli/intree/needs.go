package intree

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/api/attributes"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/mounts"
)

// Convert returns the volume of liveconfig that a volume of a pod with such containers becomes, and
// what their mounts need of it. The error has the reasons why the volume stays as it is, or is
// [ErrOther].
func (n Namer) Convert(
	v corev1.Volume, containers []mounts.Container,
) (*corev1.CSIVolumeSource, mounts.Needs, error) {
	csi, err := n.ToLiveconfig(v.VolumeSource)
	if err != nil {
		return nil, mounts.Needs{}, err
	}
	needs, err := n.AddNeeds(csi, v.Name, containers)
	if err != nil {
		return nil, mounts.Needs{}, err
	}
	return csi, needs, nil
}

// AddNeeds adds to a volume of liveconfig what the mounts of it need, so that containers start as
// they do with the volume of Kubernetes. The error is why it has to stay a volume of Kubernetes.
func (n Namer) AddNeeds(
	csi *corev1.CSIVolumeSource, volume string, containers []mounts.Container,
) (mounts.Needs, error) {
	spec, err := api.Parse(csi.VolumeAttributes, n.Namespace)
	if err != nil {
		return mounts.Needs{}, err
	}
	needs, err := mounts.Of(containers, volume, spec)
	if err != nil {
		return needs, err
	}
	if needs.InPlace() {
		csi.VolumeAttributes[api.KeyUpdatePolicy] = string(api.UpdateInPlace)
	}
	if len(needs.Always)+len(needs.IfAbsent) == 0 {
		return needs, nil
	}
	csi.VolumeAttributes[api.KeyMountPoints], err = attributes.MountPoints(needs.Always, needs.IfAbsent)
	if err == nil {
		_, err = api.Parse(csi.VolumeAttributes, n.Namespace)
	}
	return needs, err
}
