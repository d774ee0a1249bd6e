package nodeserver

import (
	"context"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/klog/v2"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/daemon/logkeys"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/access"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/state"
)

// The keys that the kubelet adds to the volume context of an inline volume when the CSIDriver
// object has podInfoOnMount.
const (
	keyEphemeral      = api.KubeletPrefix + "ephemeral"
	keyPodNamespace   = api.KubeletPrefix + "pod.namespace"
	keyPodName        = api.KubeletPrefix + "pod.name"
	keyPodUID         = api.KubeletPrefix + "pod.uid"
	keyServiceAccount = api.KubeletPrefix + "serviceAccount.name"
)

// The longest volume ID, which is what CSI allows, and the longest path of a kernel.
const (
	maxVolumeID = 128
	maxTarget   = unix.PathMax - 1
)

// maxGroup is the largest group ID that Linux and the Kubernetes API accept in common.
const maxGroup = 1<<31 - 1

// recordOf turns a publish request into what the volume is, or refuses it. The attributes
// themselves are checked where a repeat of a live volume has been recognised, and the pod by
// [Driver.checkPod].
func (d *Driver) recordOf(req *csi.NodePublishVolumeRequest) (state.Record, error) {
	about := req.GetVolumeContext()
	capability := req.GetVolumeCapability()
	if err := d.checkIDs(req.GetVolumeId(), req.GetTargetPath()); err != nil {
		return state.Record{}, err
	}
	switch {
	case capability == nil:
		return state.Record{}, invalid("volume_capability is missing")
	case capability.GetBlock() != nil:
		return state.Record{}, invalid("block volumes are not served: remove fsType \"block\" from the volume")
	case !req.GetReadonly():
		return state.Record{}, invalid("the volume must be read-only: add \"readOnly: true\" to its csi section")
	}
	group, err := groupOf(capability.GetMount().GetVolumeMountGroup())
	if err != nil {
		return state.Record{}, err
	}
	return state.Record{
		VolumeID: req.GetVolumeId(), TargetPath: req.GetTargetPath(), Attributes: userAttributes(about), FSGroup: group,
		Pod: api.Pod{
			Namespace: about[keyPodNamespace], Name: about[keyPodName], UID: about[keyPodUID],
			ServiceAccount: about[keyServiceAccount],
		},
	}, nil
}

// checkIDs refuses a volume or a target that no kubelet names. Messages repeat only a short part of
// them: it ends up in logs and Events.
func (d *Driver) checkIDs(volumeID, target string) error {
	switch {
	case volumeID == "":
		return invalid("volume_id is missing")
	case len(volumeID) > maxVolumeID:
		return invalid("volume_id %.64q... has %d bytes, CSI allows %d", volumeID, len(volumeID), maxVolumeID)
	case target == "":
		return invalid("target_path is missing")
	case len(target) > maxTarget || strings.ContainsRune(target, 0):
		return invalid("target_path %.64q... is not a path: it has %d bytes, or a zero byte", target, len(target))
	case filepath.Clean(target) != target || !strings.HasPrefix(target, d.cfg.KubeletDir+"/"):
		return invalid("target_path %q is not a clean path below the kubelet's directory %s%s", target, d.cfg.KubeletDir,
			d.adviceOn(target))
	}
	return nil
}

// PodsDir is the directory of the kubelet's directory in which target paths are.
const PodsDir = "pods"

// adviceOn returns what to set where a kubelet has another directory than the driver's flag has. It
// may be the same one, by another path.
func (d *Driver) adviceOn(target string) string {
	root, _, ok := strings.Cut(target, "/"+PodsDir+"/")
	if !ok || root == d.cfg.KubeletDir || filepath.Clean(target) != target || !filepath.IsAbs(root) {
		return " (see --kubelet-dir)"
	}
	return ": set the chart's value kubeletDir (--kubelet-dir) to " + root + ", which is the kubelet's --root-dir"
}

// checkPod refuses a request that does not name its pod, and a pod whose UID is not that of the
// target path. The path is the kubelet's, which has the directories of pods by their UIDs. Without
// podInfoOnMount the attributes about the pod may be an attribute that its user wrote, who cannot
// know the UID of a pod to come.
func (d *Driver) checkPod(req *csi.NodePublishVolumeRequest) error {
	about := req.GetVolumeContext()
	uid := about[keyPodUID]
	switch {
	case about[keyPodNamespace] == "", about[keyPodName] == "", uid == "":
		return invalid("the request does not name a pod: set podInfoOnMount: true in the CSIDriver object %s", d.cfg.Name)
	case about[keyEphemeral] != "true":
		return invalid("only inline volumes are served: put the csi section into the pod's volumes, not into a " +
			"PersistentVolume")
	case len(validation.IsDNS1123Label(about[keyPodNamespace])) > 0:
		return invalid("%.64q is not a namespace: set podInfoOnMount: true in the CSIDriver object %s",
			about[keyPodNamespace], d.cfg.Name)
	}
	below, ok := strings.CutPrefix(req.GetTargetPath(), d.cfg.KubeletDir+"/"+PodsDir+"/")
	if owner, _, _ := strings.Cut(below, "/"); ok && owner != uid {
		return invalid("target_path %q is not one of pod UID %.64q: set podInfoOnMount: true in the CSIDriver object %s",
			req.GetTargetPath(), uid, d.cfg.Name)
	}
	return nil
}

// groupOf parses the pod's fsGroup; nil when it has none. Zero is a group.
func groupOf(text string) (*int, error) {
	if text == "" {
		return nil, nil //nolint:nilnil // No group is a valid answer, and not an error.
	}
	group, err := strconv.ParseUint(text, 10, 32)
	if err != nil || group > maxGroup {
		return nil, invalid("volume_mount_group %.64q is not a number from 0 to %d", text, maxGroup)
	}
	g := int(group)
	return &g, nil
}

// tokenOf returns the token of the pod's service account, if the CSIDriver object asks for one.
// Where the cluster can, it comes among the secrets, and what is in the context then is the user's;
// in older clusters it is the other way round. One that cannot be used counts as none: a volume
// that needs one has a problem, and a repeat for one that is live must not fail.
func tokenOf(ctx context.Context, req *csi.NodePublishVolumeRequest, pod api.Pod) access.Token {
	for _, place := range []map[string]string{req.GetSecrets(), req.GetVolumeContext()} {
		token, err := access.ParseTokens(place[access.TokensKey], pod)
		if err != nil {
			klog.FromContext(ctx).Error(err, "A token cannot be used", logkeys.VolumeID, req.GetVolumeId())
		}
		if !token.IsZero() {
			return token
		}
	}
	return access.Token{}
}

// userAttributes leaves out what is the kubelet's. Tokens in it change from call to call, and are
// nobody's to record.
func userAttributes(about map[string]string) map[string]string {
	attributes := make(map[string]string, len(about))
	for key, value := range about {
		if !strings.HasPrefix(key, api.KubeletPrefix) {
			attributes[key] = value
		}
	}
	return attributes
}
