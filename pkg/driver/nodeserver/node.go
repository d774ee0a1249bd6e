package nodeserver

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/liveconfig-csi/liveconfig/pkg/driver/access"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/volume"
	"github.com/liveconfig-csi/liveconfig/pkg/files/volumefs"
)

// installationTimeout is how long a publish waits for the first answer about the CSIDriver object.
const installationTimeout = 10 * time.Second

// NodePublishVolume makes the volume that the request's context describes appear on the target
// path.
func (d *Driver) NodePublishVolume(
	ctx context.Context, req *csi.NodePublishVolumeRequest,
) (*csi.NodePublishVolumeResponse, error) {
	if err := d.publish(ctx, req); err != nil {
		return nil, statusOf(err)
	}
	return &csi.NodePublishVolumeResponse{}, nil
}

func (d *Driver) publish(ctx context.Context, req *csi.NodePublishVolumeRequest) error {
	record, err := d.recordOf(req)
	if err != nil {
		return err
	}
	return d.cfg.Volumes.Publish(ctx, volume.Request{
		Record: record, Token: func() access.Token { return tokenOf(ctx, req, record.Pod) },
		Vouch: d.checkInstallation, Unnamed: d.checkPod(req),
	})
}

// checkInstallation refuses when the kubelet does not vouch for pods. It returns before the kubelet
// gives the call up.
func (d *Driver) checkInstallation(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, installationTimeout)
	defer cancel()
	return d.cfg.Installation.Check(ctx)
}

// NodeUnpublishVolume removes the volume and the target path. It is not an error if one of them is
// gone already.
func (d *Driver) NodeUnpublishVolume(
	ctx context.Context, req *csi.NodeUnpublishVolumeRequest,
) (*csi.NodeUnpublishVolumeResponse, error) {
	err := d.checkIDs(req.GetVolumeId(), req.GetTargetPath())
	if err == nil {
		err = d.cfg.Volumes.Unpublish(ctx, req.GetVolumeId(), req.GetTargetPath())
	}
	if err != nil {
		return nil, statusOf(err)
	}
	return &csi.NodeUnpublishVolumeResponse{}, nil
}

// NodeGetVolumeStats reports how full the volume is, and whether its files are current.
func (d *Driver) NodeGetVolumeStats(
	_ context.Context, req *csi.NodeGetVolumeStatsRequest,
) (*csi.NodeGetVolumeStatsResponse, error) {
	response, err := d.statsOf(req.GetVolumeId(), req.GetVolumePath())
	if err != nil {
		return nil, statusOf(err)
	}
	return response, nil
}

func (d *Driver) statsOf(volumeID, target string) (*csi.NodeGetVolumeStatsResponse, error) {
	switch {
	case volumeID == "":
		return nil, invalid("volume_id is missing")
	case target == "":
		return nil, invalid("volume_path is missing")
	}
	problem, err := d.cfg.Volumes.Condition(volumeID, target)
	if err != nil {
		return nil, err
	}
	usage, err := d.cfg.Usage(target)
	switch {
	case errors.Is(err, volumefs.ErrNotMounted):
		return nil, refuse(volume.Unknown, "volume %s is not mounted on %s", volumeID, target)
	case err != nil:
		return nil, fmt.Errorf("read the usage of volume %s: %w", volumeID, err)
	}
	response := &csi.NodeGetVolumeStatsResponse{Usage: []*csi.VolumeUsage{
		{Unit: csi.VolumeUsage_BYTES, Total: usage.BytesTotal, Used: usage.BytesUsed, Available: usage.BytesFree},
		{Unit: csi.VolumeUsage_INODES, Total: usage.InodesTotal, Used: usage.InodesUsed, Available: usage.InodesFree},
	}}
	setCondition(response, problem)
	return response, nil
}

// NodeGetVolumeHealth reports whether the volume's files are current. Pods can read the files in
// either case.
func (d *Driver) NodeGetVolumeHealth(
	_ context.Context, req *csi.NodeGetVolumeHealthRequest,
) (*csi.NodeGetVolumeHealthResponse, error) {
	if req.GetVolumeId() == "" {
		return nil, statusOf(invalid("volume_id is missing"))
	}
	problem, err := d.cfg.Volumes.Condition(req.GetVolumeId(), req.GetVolumePublishPath())
	if err != nil {
		return nil, statusOf(err)
	}
	return &csi.NodeGetVolumeHealthResponse{VolumeHealth: healthOf(req.GetVolumeId(), problem)}, nil
}
