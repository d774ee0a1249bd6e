package nodeserver_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/liveconfig-csi/liveconfig/pkg/driver/volume"
	"github.com/liveconfig-csi/liveconfig/pkg/files/volumefs"
)

// condition is the message VolumeCondition of CSI up to 1.12.
type condition struct {
	abnormal bool
	message  string
}

// conditionOf decodes field 2 of a NodeGetVolumeStatsResponse, as a client of CSI up to 1.12 does.
func conditionOf(t *testing.T, response *csi.NodeGetVolumeStatsResponse) condition {
	t.Helper()
	unknown := response.ProtoReflect().GetUnknown()
	number, kind, n := protowire.ConsumeTag(unknown)
	if n < 0 || number != 2 || kind != protowire.BytesType {
		t.Fatalf("fields that CSI 1.13 does not know = % x, want a message in field 2", []byte(unknown))
	}
	body, m := protowire.ConsumeBytes(unknown[n:])
	if n+m != len(unknown) {
		t.Fatalf("fields that CSI 1.13 does not know = % x, want no other than field 2", []byte(unknown))
	}
	var c condition
	for len(body) > 0 {
		number, kind, n := protowire.ConsumeTag(body)
		body = body[n:]
		switch {
		case number == 1 && kind == protowire.VarintType:
			v, n := protowire.ConsumeVarint(body)
			c.abnormal, body = protowire.DecodeBool(v), body[n:]
		case number == 2 && kind == protowire.BytesType:
			v, n := protowire.ConsumeString(body)
			c.message, body = v, body[n:]
		default:
			t.Fatalf("the condition has a field %d of type %d", number, kind)
		}
	}
	return c
}

func usageOfTarget(path string) (volumefs.Usage, error) {
	if path != target {
		return volumefs.Usage{}, fmt.Errorf("look at %s: %w", path, volumefs.ErrNotMounted)
	}
	return volumefs.Usage{
		BytesTotal: 1000, BytesUsed: 300, BytesFree: 700, InodesTotal: 50, InodesUsed: 20, InodesFree: 30,
	}, nil
}

func TestStats(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		problem error
		want    condition
	}{
		"nothing is wrong":    {nil, condition{false, "the files are current"}},
		"a source is missing": {errors.New(`configmap "x" not found`), condition{true, `configmap "x" not found`}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, nil)
			b.volumes.problem = tc.problem
			response, err := b.NodeGetVolumeStats(t.Context(), &csi.NodeGetVolumeStatsRequest{VolumeId: volumeID, VolumePath: target})
			if err != nil {
				t.Fatal(err)
			}
			wantSame(t, "asked for the condition of", [][2]string{{volumeID, target}}, b.volumes.asked)
			if got := conditionOf(t, response); got != tc.want {
				t.Errorf("condition = %+v, want %+v", got, tc.want)
			}
			response.ProtoReflect().SetUnknown(nil)
			checkMessage(t, response, &csi.NodeGetVolumeStatsResponse{Usage: []*csi.VolumeUsage{
				{Unit: csi.VolumeUsage_BYTES, Total: 1000, Used: 300, Available: 700},
				{Unit: csi.VolumeUsage_INODES, Total: 50, Used: 20, Available: 30},
			}}, err)
		})
	}
}

// TestWhatIsMissingIsRefused, also the volume that is asked for.
func TestWhatIsMissingIsRefused(t *testing.T) {
	t.Parallel()
	stats := func(b *bench, id, path string) error {
		_, err := b.NodeGetVolumeStats(b.t.Context(), &csi.NodeGetVolumeStatsRequest{VolumeId: id, VolumePath: path})
		return err
	}
	unpublish := func(b *bench, id, path string) error {
		_, err := b.NodeUnpublishVolume(b.t.Context(), &csi.NodeUnpublishVolumeRequest{VolumeId: id, TargetPath: path})
		return err
	}
	health := func(b *bench, id, path string) error {
		_, err := b.NodeGetVolumeHealth(b.t.Context(), &csi.NodeGetVolumeHealthRequest{VolumeId: id, VolumePublishPath: path})
		return err
	}
	tests := map[string]struct {
		call     func(b *bench, id, path string) error
		id, path string
		code     codes.Code
		want     string
	}{
		"stats without a volume ID":     {stats, "", target, codes.InvalidArgument, "volume_id is missing"},
		"stats without a path":          {stats, volumeID, "", codes.InvalidArgument, "volume_path is missing"},
		"stats of what is not mounted":  {stats, volumeID, "/elsewhere", codes.NotFound, "volume " + volumeID + " is not mounted on /elsewhere"},
		"health without a volume ID":    {health, "", "", codes.InvalidArgument, "volume_id is missing"},
		"unpublish without a volume ID": {unpublish, "", target, codes.InvalidArgument, "volume_id is missing"},
		"unpublish without a target":    {unpublish, volumeID, "", codes.InvalidArgument, "target_path is missing"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, nil)
			checkStatus(t, tc.call(b, tc.id, tc.path), tc.code, tc.want)
			if tc.code == codes.InvalidArgument {
				b.checkNothingGotThrough()
			}
		})
	}
	b := newBench(t, nil)
	b.usage = func(string) (volumefs.Usage, error) {
		return volumefs.Usage{}, errors.New("statfs: input/output error")
	}
	checkStatus(t, stats(b, volumeID, target), codes.Internal, "read the usage of volume "+volumeID+": statfs: input/output error")
}

func TestHealth(t *testing.T) {
	t.Parallel()
	degraded := &csi.VolumeHealth{VolumeId: volumeID, HealthStatuses: []*csi.VolumeHealth_VolumeHealthEntry{{
		Status: csi.VolumeHealthErrorType_DEGRADED, Reason: "FilesNotCurrent", Message: "access lost",
	}}}
	tests := map[string]struct {
		problem error
		path    string
		want    *csi.VolumeHealth
	}{
		"nothing is wrong":          {nil, target, &csi.VolumeHealth{VolumeId: volumeID}},
		"the files are not current": {errors.New("access lost"), target, degraded},
		"wherever the volume is":    {errors.New("access lost"), "", degraded},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, nil)
			b.volumes.problem = tc.problem
			response, err := b.NodeGetVolumeHealth(t.Context(), &csi.NodeGetVolumeHealthRequest{VolumeId: volumeID, VolumePublishPath: tc.path})
			checkMessage(t, response, &csi.NodeGetVolumeHealthResponse{VolumeHealth: tc.want}, err)
			wantSame(t, "asked for the condition of", [][2]string{{volumeID, tc.path}}, b.volumes.asked)
		})
	}
}

// callAll makes the calls that hand an error of the volumes on, and returns their errors.
func (b *bench) callAll() map[string]error {
	_, publish := b.NodePublishVolume(b.t.Context(), publishRequest())
	_, unpublish := b.NodeUnpublishVolume(b.t.Context(), &csi.NodeUnpublishVolumeRequest{VolumeId: volumeID, TargetPath: target})
	_, stats := b.NodeGetVolumeStats(b.t.Context(), &csi.NodeGetVolumeStatsRequest{VolumeId: volumeID, VolumePath: target})
	_, health := b.NodeGetVolumeHealth(b.t.Context(), &csi.NodeGetVolumeHealthRequest{VolumeId: volumeID})
	return map[string]error{"publish": publish, "unpublish": unpublish, "stats": stats, "health": health}
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
			b := newBench(t, nil)
			b.volumes.err = tc.err
			for call, err := range b.callAll() {
				t.Run(call, func(t *testing.T) { checkStatus(t, err, tc.code, tc.text) })
			}
		})
	}
}
