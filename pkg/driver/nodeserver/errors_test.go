package nodeserver_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"

	"github.com/liveconfig-csi/liveconfig/pkg/driver/volume"
)

// calls are the calls that hand an error of the volumes on.
func calls() map[string]func(context.Context, csi.NodeClient) error {
	return map[string]func(context.Context, csi.NodeClient) error{
		"publish": func(ctx context.Context, c csi.NodeClient) error {
			_, err := c.NodePublishVolume(ctx, publishRequest())
			return err
		},
		"unpublish": func(ctx context.Context, c csi.NodeClient) error {
			_, err := c.NodeUnpublishVolume(ctx, &csi.NodeUnpublishVolumeRequest{VolumeId: volumeID, TargetPath: target})
			return err
		},
		"stats": func(ctx context.Context, c csi.NodeClient) error {
			_, err := c.NodeGetVolumeStats(ctx, &csi.NodeGetVolumeStatsRequest{VolumeId: volumeID, VolumePath: target})
			return err
		},
		"health": func(ctx context.Context, c csi.NodeClient) error {
			_, err := c.NodeGetVolumeHealth(ctx, &csi.NodeGetVolumeHealthRequest{VolumeId: volumeID})
			return err
		},
	}
}

// TestEveryKindHasItsCode shows that the message is the cause and nothing else: the kubelet quotes it in its Event
// (rule 10).
func TestEveryKindHasItsCode(t *testing.T) {
	t.Parallel()
	kind := func(k volume.Kind) error {
		return &volume.Error{Op: "publish", VolumeID: volumeID, Kind: k, Err: errors.New("because")}
	}
	tests := map[string]struct {
		err  error
		code codes.Code
		text string
	}{
		"invalid":                  {kind(volume.Invalid), codes.InvalidArgument, "because"},
		"busy":                     {kind(volume.Busy), codes.Aborted, "because"},
		"not ready":                {kind(volume.NotReady), codes.Unavailable, "because"},
		"missing":                  {kind(volume.Missing), codes.FailedPrecondition, "because"},
		"denied":                   {kind(volume.Denied), codes.PermissionDenied, "because"},
		"different":                {kind(volume.Different), codes.AlreadyExists, "because"},
		"unknown":                  {kind(volume.Unknown), codes.NotFound, "because"},
		"exhausted":                {kind(volume.Exhausted), codes.ResourceExhausted, "because"},
		"IO":                       {kind(volume.IO), codes.Internal, "because"},
		"a kind that nobody knows": {kind("Odd"), codes.Internal, "because"},
		"a wrapped one":            {fmt.Errorf("at work: %w", kind(volume.Missing)), codes.FailedPrecondition, "because"},
		"no kind at all":           {errors.New("plain"), codes.Internal, "plain"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := csi.NewNodeClient(connect(t, &fakeVolumes{err: tc.err}, noUsage))
			for call, do := range calls() {
				t.Run(call, func(t *testing.T) {
					checkStatus(t, do(t.Context(), client), tc.code, tc.text)
				})
			}
		})
	}
}
