// Package nodeserver is the CSI face of the driver: the Identity and Node services over the volumes
// of a node.
//
// It checks requests, hands over, and maps errors to codes. It does not know sources, files or
// mounts.
package nodeserver

import (
	"context"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/protobuf/types/known/wrapperspb"
	"k8s.io/klog/v2"

	"github.com/liveconfig-csi/liveconfig/pkg/daemon/logkeys"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/volume"
	"github.com/liveconfig-csi/liveconfig/pkg/files/volumefs"
)

// Volumes is the life of the node's volumes. Errors are of type *volume.Error.
type Volumes interface {
	// Publish also returns the errors of the request.
	Publish(context.Context, volume.Request) error
	Unpublish(ctx context.Context, volumeID, target string) error
	// Condition returns what is wrong with a volume's files; an error when it is not published on
	// target. An empty target stands for wherever it is.
	Condition(volumeID, target string) (problem, err error)
}

// Installation decides whether the kubelet vouches for the pod of a request.
type Installation interface {
	// Check returns why it does not, as a *csidriver.Error. It may wait for the API server until
	// ctx ends.
	Check(ctx context.Context) error
}

// Usage is how full a volume's file system is; volumefs.ErrNotMounted when target is not one.
type Usage func(target string) (volumefs.Usage, error)

// Config is what a driver needs. Every field is required.
type Config struct {
	// Name is the CSI driver name.
	Name string
	// Version is the vendor version that GetPluginInfo reports.
	Version string
	// NodeID is this node's name.
	NodeID string
	// KubeletDir is the kubelet's root directory; target paths outside it are refused.
	KubeletDir   string
	Installation Installation
	Volumes      Volumes
	Usage        Usage
	// Ready returns why the driver cannot do its job, or nil. It must not wait.
	Ready func() error
}

// Driver serves the CSI Identity and Node services.
type Driver struct {
	csi.UnimplementedIdentityServer
	csi.UnimplementedNodeServer

	cfg Config
}

var (
	_ csi.IdentityServer = (*Driver)(nil)
	_ csi.NodeServer     = (*Driver)(nil)
)

// New returns a driver.
func New(cfg Config) *Driver {
	return &Driver{cfg: cfg}
}

// GetPluginInfo returns the name and the version of the driver.
func (d *Driver) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: d.cfg.Name, VendorVersion: d.cfg.Version}, nil
}

// GetPluginCapabilities names no capability: there is no controller service and no topology.
func (d *Driver) GetPluginCapabilities(
	context.Context, *csi.GetPluginCapabilitiesRequest,
) (*csi.GetPluginCapabilitiesResponse, error) {
	return &csi.GetPluginCapabilitiesResponse{}, nil
}

// Probe is ready while the driver can do its job. An error would mean that the driver is broken.
func (d *Driver) Probe(ctx context.Context, _ *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	err := d.cfg.Ready()
	if err != nil {
		klog.FromContext(ctx).V(4).Info("Not ready", logkeys.Reason, err.Error())
	}
	return &csi.ProbeResponse{Ready: wrapperspb.Bool(err == nil)}, nil
}

// NodeGetInfo returns the name of the node, without a limit of volumes and without a topology.
func (d *Driver) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	return &csi.NodeGetInfoResponse{NodeId: d.cfg.NodeID}, nil
}

// NodeGetCapabilities announces that the driver applies fsGroup itself, and reports usage and
// health.
func (d *Driver) NodeGetCapabilities(
	context.Context, *csi.NodeGetCapabilitiesRequest,
) (*csi.NodeGetCapabilitiesResponse, error) {
	capabilities := []csi.NodeServiceCapability_RPC_Type{
		csi.NodeServiceCapability_RPC_VOLUME_MOUNT_GROUP,
		csi.NodeServiceCapability_RPC_GET_VOLUME_STATS,
		csi.NodeServiceCapability_RPC_GET_VOLUME_HEALTH,
		capabilityVolumeCondition,
	}
	response := &csi.NodeGetCapabilitiesResponse{}
	for _, c := range capabilities {
		response.Capabilities = append(response.Capabilities, &csi.NodeServiceCapability{
			Type: &csi.NodeServiceCapability_Rpc{Rpc: &csi.NodeServiceCapability_RPC{Type: c}},
		})
	}
	return response, nil
}
