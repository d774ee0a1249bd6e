package nodeserver

import (
	"context"
	"errors"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/klog/v2"

	"github.com/liveconfig-csi/liveconfig/pkg/daemon/logkeys"
	"github.com/liveconfig-csi/liveconfig/pkg/files/volumefs"
)

// installationTimeout is how long a publish waits for the API server to tell of the CSIDriver object.
const installationTimeout = 10 * time.Second

// NodePublishVolume makes the volume that the request's context describes appear on the target path.
func (d *Driver) NodePublishVolume(
	ctx context.Context, req *csi.NodePublishVolumeRequest,
) (*csi.NodePublishVolumeResponse, error) {
	record, err := d.recordOf(req)
	if err != nil {
		return nil, err
	}
	unnamed := d.checkPod(req)
	switch isLive := d.cfg.Volumes.Published(record.VolumeID, record.TargetPath); {
	case isLive && unnamed != nil:
		// The CSIDriver object was changed since. A running pod is none the worse for it: nothing of the request is used.
		klog.FromContext(ctx).Error(unnamed, "A live volume stays as it is", logkeys.VolumeID, record.VolumeID)
		return &csi.NodePublishVolumeResponse{}, nil
	case !isLive:
		if err := d.checkInstallation(ctx); err != nil {
			return nil, err
		}
		if unnamed != nil {
			return nil, unnamed
		}
	}
	if err := d.cfg.Volumes.Publish(ctx, record, tokenOf(ctx, req, record.Pod)); err != nil {
		return nil, statusOf(err)
	}
	return &csi.NodePublishVolumeResponse{}, nil
}

// checkInstallation refuses when the kubelet does not vouch for pods. It gives up while the kubelet still listens.
func (d *Driver) checkInstallation(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, installationTimeout)
	defer cancel()
	if err := d.cfg.Installation.Check(ctx); err != nil {
		return statusOf(err)
	}
	return nil
}

// NodeUnpublishVolume removes the volume and the target path. What is not there any more is no error.
func (d *Driver) NodeUnpublishVolume(
	ctx context.Context, req *csi.NodeUnpublishVolumeRequest,
) (*csi.NodeUnpublishVolumeResponse, error) {
	if err := d.checkIDs(req.GetVolumeId(), req.GetTargetPath()); err != nil {
		return nil, err
	}
	if err := d.cfg.Volumes.Unpublish(ctx, req.GetVolumeId(), req.GetTargetPath()); err != nil {
		return nil, statusOf(err)
	}
	return &csi.NodeUnpublishVolumeResponse{}, nil
}

// NodeGetVolumeStats reports how full the volume is, and whether its files are what its sources say.
func (d *Driver) NodeGetVolumeStats(
	_ context.Context, req *csi.NodeGetVolumeStatsRequest,
) (*csi.NodeGetVolumeStatsResponse, error) {
	switch {
	case req.GetVolumeId() == "":
		return nil, invalid("volume_id is missing")
	case req.GetVolumePath() == "":
		return nil, invalid("volume_path is missing")
	}
	problem, err := d.cfg.Volumes.Condition(req.GetVolumeId(), req.GetVolumePath())
	if err != nil {
		return nil, statusOf(err)
	}
	usage, err := d.cfg.Usage(req.GetVolumePath())
	if errors.Is(err, volumefs.ErrNotMounted) {
		return nil, status.Errorf(codes.NotFound, "volume %s is not mounted on %s", req.GetVolumeId(), req.GetVolumePath())
	}
	if err != nil {
		return nil, status.Errorf(codes.Internal, "read the usage of volume %s: %v", req.GetVolumeId(), err)
	}
	response := &csi.NodeGetVolumeStatsResponse{Usage: []*csi.VolumeUsage{
		{Unit: csi.VolumeUsage_BYTES, Total: usage.BytesTotal, Used: usage.BytesUsed, Available: usage.BytesFree},
		{Unit: csi.VolumeUsage_INODES, Total: usage.InodesTotal, Used: usage.InodesUsed, Available: usage.InodesFree},
	}}
	setCondition(response, problem)
	return response, nil
}

// NodeGetVolumeHealth reports whether the volume's files are what its sources say. Whatever is wrong, they can be read.
func (d *Driver) NodeGetVolumeHealth(
	_ context.Context, req *csi.NodeGetVolumeHealthRequest,
) (*csi.NodeGetVolumeHealthResponse, error) {
	if req.GetVolumeId() == "" {
		return nil, invalid("volume_id is missing")
	}
	problem, err := d.cfg.Volumes.Condition(req.GetVolumeId(), req.GetVolumePublishPath())
	if err != nil {
		return nil, statusOf(err)
	}
	return &csi.NodeGetVolumeHealthResponse{VolumeHealth: healthOf(req.GetVolumeId(), problem)}, nil
}
