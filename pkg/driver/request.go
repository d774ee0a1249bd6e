package driver

import (
	"context"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/klog/v2"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/identity"
	"github.com/liveconfig-csi/liveconfig/pkg/state"
)

// What the kubelet adds to the volume context of an inline volume when the CSIDriver object has podInfoOnMount.
const (
	keyEphemeral      = api.KubeletPrefix + "ephemeral"
	keyPodNamespace   = api.KubeletPrefix + "pod.namespace"
	keyPodName        = api.KubeletPrefix + "pod.name"
	keyPodUID         = api.KubeletPrefix + "pod.uid"
	keyServiceAccount = api.KubeletPrefix + "serviceAccount.name"
)

// maxGroup is the largest group ID that Linux and the Kubernetes API accept in common.
const maxGroup = 1<<31 - 1

// recordOf turns a publish request into what the volume is, or refuses it. The attributes themselves are checked where a
// repeat of a live volume has been recognised.
func (d *Driver) recordOf(req *csi.NodePublishVolumeRequest) (state.Record, error) {
	about := req.GetVolumeContext()
	capability := req.GetVolumeCapability()
	switch {
	case req.GetVolumeId() == "":
		return state.Record{}, invalid("volume_id is missing")
	case req.GetTargetPath() == "":
		return state.Record{}, invalid("target_path is missing")
	case capability == nil:
		return state.Record{}, invalid("volume_capability is missing")
	case capability.GetBlock() != nil:
		return state.Record{}, invalid("block volumes are not served: remove fsType \"block\" from the volume")
	case !req.GetReadonly():
		return state.Record{}, invalid("the volume must be read-only: add \"readOnly: true\" to its csi section")
	case about[keyPodNamespace] == "", about[keyPodName] == "", about[keyPodUID] == "":
		return state.Record{}, invalid("the request does not name a pod: set podInfoOnMount: true in the CSIDriver object %s",
			d.cfg.Name)
	case about[keyEphemeral] != "true":
		return state.Record{}, invalid("only inline volumes are served: put the csi section into the pod's volumes, " +
			"not into a PersistentVolume")
	}
	if err := d.checkTarget(req.GetTargetPath()); err != nil {
		return state.Record{}, err
	}
	if err := d.checkPod(req.GetTargetPath(), about[keyPodUID]); err != nil {
		return state.Record{}, err
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

// checkTarget refuses a target path that is not a clean path below the kubelet's directory.
func (d *Driver) checkTarget(target string) error {
	if filepath.Clean(target) != target || !strings.HasPrefix(target, d.cfg.KubeletDir+"/") {
		return invalid("target_path %q is not a clean path below the kubelet's directory %s (see --kubelet-dir)",
			target, d.cfg.KubeletDir)
	}
	return nil
}

// checkPod refuses a pod whose UID is not that of the target path. The path is the kubelet's, which has the directories of
// pods by their UIDs. Without podInfoOnMount what is said about the pod may be an attribute that its user wrote, who cannot
// know the UID of a pod to come.
func (d *Driver) checkPod(target, uid string) error {
	below, ok := strings.CutPrefix(target, d.cfg.KubeletDir+"/pods/")
	if owner, _, _ := strings.Cut(below, "/"); ok && owner != uid {
		return invalid("target_path %q is not one of pod UID %.64q: set podInfoOnMount: true in the CSIDriver object %s",
			target, uid, d.cfg.Name)
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
		return nil, invalid("volume_mount_group %q is not a number from 0 to %d", text, maxGroup)
	}
	g := int(group)
	return &g, nil
}

// tokenOf returns the token of the pod's service account, if the CSIDriver object asks for one. Where the cluster can, it
// comes among the secrets, and what is in the context then is the user's. One that cannot be used is none: a volume that
// needs one says so, and a repeat for one that is live must not fail.
func tokenOf(ctx context.Context, req *csi.NodePublishVolumeRequest) identity.Token {
	text, ok := req.GetSecrets()[identity.TokensKey]
	if !ok {
		text = req.GetVolumeContext()[identity.TokensKey]
	}
	token, err := identity.ParseTokens(text)
	if err != nil {
		klog.FromContext(ctx).Error(err, "A token cannot be used")
	}
	return token
}

// userAttributes leaves out what is the kubelet's. Tokens in it change from call to call, and are nobody's to record.
func userAttributes(about map[string]string) map[string]string {
	attributes := make(map[string]string, len(about))
	for key, value := range about {
		if !strings.HasPrefix(key, api.KubeletPrefix) {
			attributes[key] = value
		}
	}
	return attributes
}

func invalid(format string, args ...any) error {
	return status.Errorf(codes.InvalidArgument, format, args...)
}
