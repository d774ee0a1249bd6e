package profile

import (
	"context"
	"errors"
	"fmt"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	corev1 "k8s.io/api/core/v1"

	"github.com/liveconfig-csi/liveconfig/test/bench/driver"
	"github.com/liveconfig-csi/liveconfig/test/kit/fakekubelet"
)

// edit edits the object that all volumes share, over and over.
func (b *bench) edit(ctx context.Context) error {
	return b.cfg.Site.Edit(ctx, namespace, shared, updateBytes, b.cfg.Edits, interval)
}

// publish makes volumes of the object, and takes each away before the next.
func (b *bench) publish(ctx context.Context, d *driver.Driver) error {
	for range b.cfg.Publishes {
		pod := driver.Pod(namespace, shared)
		if err := d.PublishAll(ctx, pod); err != nil {
			return err
		}
		if err := d.UnpublishAll(ctx, pod); err != nil {
			return err
		}
	}
	return nil
}

// works are what the driver is profiled at.
func (b *bench) works(d *driver.Driver, pods []*corev1.Pod) []work {
	return []work{
		{
			key: "update", do: b.edit,
			what: fmt.Sprintf("%d edits of a ConfigMap of 1 KiB in %d volumes", b.cfg.Edits, b.cfg.Volumes),
		},
		{
			key: "publish", do: func(ctx context.Context) error { return b.publish(ctx, d) },
			what: fmt.Sprintf("%d volumes of a watched ConfigMap of 1 KiB, published and unpublished", b.cfg.Publishes),
		},
		{
			key: "idle", do: func(ctx context.Context) error { return b.lookAfter(ctx, d, pods) },
			what: fmt.Sprintf("nothing changes, and a kubelet looks %d times after %d volumes, by %d calls for each, with a connection for each call",
				b.cfg.Rounds, b.cfg.Volumes, len(calls(d, pods[0]))),
		},
	}
}

// work is something that the driver does.
type work struct {
	key, what string
	do        func(context.Context) error
}

// lookAfter makes the calls that a kubelet makes for volumes that are there.
func (b *bench) lookAfter(ctx context.Context, d *driver.Driver, pods []*corev1.Pod) error {
	for range b.cfg.Rounds {
		for _, pod := range pods {
			for _, call := range calls(d, pod) {
				if err := connected(ctx, d.Socket(), call); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// call is one that a kubelet makes.
type call func(context.Context, csi.NodeClient) error

// calls are what a kubelet calls for a volume in a minute or so: to publish it again, and to see how full it is. Before
// each it asks what the driver can do, once for each thing.
func calls(d *driver.Driver, pod *corev1.Pod) []call {
	volume := pod.Spec.Volumes[0]
	ask := func(ctx context.Context, node csi.NodeClient) error {
		_, err := node.NodeGetCapabilities(ctx, &csi.NodeGetCapabilitiesRequest{})
		return err
	}
	publish := func(ctx context.Context, node csi.NodeClient) error {
		_, err := node.NodePublishVolume(ctx, fakekubelet.PublishRequest(d.KubeletDir(), pod, volume))
		return err
	}
	stats := func(ctx context.Context, node csi.NodeClient) error {
		_, err := node.NodeGetVolumeStats(ctx, &csi.NodeGetVolumeStatsRequest{
			VolumeId: fakekubelet.VolumeID(pod, volume.Name), VolumePath: d.Target(pod, volume.Name),
		})
		return err
	}
	return []call{ask, ask, publish, ask, stats, ask}
}

// connected makes a call as a kubelet does, over a separate connection.
func connected(ctx context.Context, socket string, call call) (err error) {
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	return call(ctx, csi.NewNodeClient(conn))
}
