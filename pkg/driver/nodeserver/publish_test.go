package nodeserver_test

import (
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/csidriver"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/state"
)

// pod is the one that all requests are about.
var pod = api.Pod{Namespace: "default", Name: "web-0", UID: podUID, ServiceAccount: "web"}

// publishRequest returns what a kubelet sends for an inline volume, tokens included.
func publishRequest() *csi.NodePublishVolumeRequest {
	return &csi.NodePublishVolumeRequest{
		VolumeId:   volumeID,
		TargetPath: target,
		Readonly:   true,
		VolumeCapability: &csi.VolumeCapability{
			AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
			AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{}},
		},
		VolumeContext: map[string]string{
			"configMap":                                "web",
			"optional":                                 "true",
			"csi.storage.k8s.io/ephemeral":             "true",
			"csi.storage.k8s.io/pod.name":              "web-0",
			"csi.storage.k8s.io/pod.namespace":         "default",
			"csi.storage.k8s.io/pod.uid":               podUID,
			"csi.storage.k8s.io/serviceAccount.name":   "web",
			"csi.storage.k8s.io/serviceAccount.tokens": tokens(jwt(pod, "t0ken")),
			"csi.storage.k8s.io/from-the-future":       "1",
		},
		Secrets: map[string]string{"csi.storage.k8s.io/serviceAccount.tokens": tokens(jwt(pod, "t0ken"))},
	}
}

func wantRecord() state.Record {
	return state.Record{
		VolumeID: volumeID, TargetPath: target, Attributes: map[string]string{"configMap": "web", "optional": "true"},
		Pod: pod,
	}
}

func mountOf(r *csi.NodePublishVolumeRequest) *csi.VolumeCapability_MountVolume {
	return r.GetVolumeCapability().GetMount()
}

// TestPublish takes requests as kubelets make them: fsGroup 0 is a value (rule 53, trap 5), and the kubelet's own keys
// are nobody's attributes (trap 14).
func TestPublish(t *testing.T) {
	t.Parallel()
	group := func(g int) *int { return &g }
	tests := map[string]struct {
		change func(*csi.NodePublishVolumeRequest)
		want   func(*state.Record)
	}{
		"as a kubelet asks": {
			func(*csi.NodePublishVolumeRequest) {}, func(*state.Record) {},
		},
		"fsGroup": {
			func(r *csi.NodePublishVolumeRequest) { mountOf(r).VolumeMountGroup = "2000" },
			func(r *state.Record) { r.FSGroup = group(2000) },
		},
		"fsGroup 0 is a group": {
			func(r *csi.NodePublishVolumeRequest) { mountOf(r).VolumeMountGroup = "0" },
			func(r *state.Record) { r.FSGroup = group(0) },
		},
		"the greatest fsGroup": {
			func(r *csi.NodePublishVolumeRequest) { mountOf(r).VolumeMountGroup = "2147483647" },
			func(r *state.Record) { r.FSGroup = group(2147483647) },
		},
		"a pod without a service account": {
			func(r *csi.NodePublishVolumeRequest) {
				delete(r.GetVolumeContext(), "csi.storage.k8s.io/serviceAccount.name")
			},
			func(r *state.Record) { r.Pod.ServiceAccount = "" },
		},
		"no attributes: that is for others to refuse": {
			func(r *csi.NodePublishVolumeRequest) {
				delete(r.GetVolumeContext(), "configMap")
				delete(r.GetVolumeContext(), "optional")
			},
			func(r *state.Record) { r.Attributes = map[string]string{} },
		},
		"a key that only looks like the kubelet's": {
			func(r *csi.NodePublishVolumeRequest) { r.VolumeContext["csi.storage.k8s.io"] = "mine" },
			func(r *state.Record) { r.Attributes["csi.storage.k8s.io"] = "mine" },
		},
		"a file system type other than block": {
			func(r *csi.NodePublishVolumeRequest) { mountOf(r).FsType = "ext4" },
			func(*state.Record) {},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, nil)
			request, want := publishRequest(), wantRecord()
			tc.change(request)
			tc.want(&want)
			b.publish(request)
			wantSame(t, "published", []state.Record{want}, b.volumes.published)
		})
	}
}

// TestTokensDoNotMakeAnotherVolume is a part of trap 14.
func TestTokensDoNotMakeAnotherVolume(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	for _, token := range []string{"older", "newer"} {
		request := publishRequest()
		request.VolumeContext[tokensKey] = tokens(jwt(pod, token))
		request.Secrets = map[string]string{tokensKey: tokens(jwt(pod, token))}
		b.publish(request)
	}
	if a, b := b.volumes.published[0], b.volumes.published[1]; a.Fingerprint() != b.Fingerprint() {
		t.Errorf("two publishes that differ in tokens alone = %+v and %+v, want the same", a, b)
	}
}

// TestMistakesOfShapeAreRefused has what no kubelet asks of this driver: among it a volume that is not read-only (rule 49,
// trap 13). How the driver is installed does not matter then.
func TestMistakesOfShapeAreRefused(t *testing.T) {
	t.Parallel()
	group := func(g string) func(*csi.NodePublishVolumeRequest) {
		return func(r *csi.NodePublishVolumeRequest) { mountOf(r).VolumeMountGroup = g }
	}
	tests := map[string]struct {
		change func(*csi.NodePublishVolumeRequest)
		want   string
	}{
		"no volume ID":  {func(r *csi.NodePublishVolumeRequest) { r.VolumeId = "" }, "volume_id is missing"},
		"no target":     {func(r *csi.NodePublishVolumeRequest) { r.TargetPath = "" }, "target_path is missing"},
		"no capability": {func(r *csi.NodePublishVolumeRequest) { r.VolumeCapability = nil }, "volume_capability is missing"},
		"block": {
			func(r *csi.NodePublishVolumeRequest) {
				r.VolumeCapability.AccessType = &csi.VolumeCapability_Block{Block: &csi.VolumeCapability_BlockVolume{}}
			},
			`block volumes are not served: remove fsType "block" from the volume`,
		},
		"not read-only": {
			func(r *csi.NodePublishVolumeRequest) { r.Readonly = false },
			`the volume must be read-only: add "readOnly: true" to its csi section`,
		},
		"not read-only, and no pod either": {
			func(r *csi.NodePublishVolumeRequest) { r.Readonly, r.VolumeContext = false, nil },
			`the volume must be read-only: add "readOnly: true" to its csi section`,
		},
		"fsGroup is a word":      {group("staff"), `volume_mount_group "staff" is not a number from 0 to 2147483647`},
		"fsGroup is negative":    {group("-1"), `volume_mount_group "-1" is not a number from 0 to 2147483647`},
		"fsGroup has a sign":     {group("+1"), `volume_mount_group "+1" is not a number from 0 to 2147483647`},
		"fsGroup is too great":   {group("2147483648"), `volume_mount_group "2147483648" is not a number from 0 to 2147483647`},
		"fsGroup is far too big": {group("99999999999999999999"), `volume_mount_group "99999999999999999999" is not a number from 0 to 2147483647`},
		"fsGroup is hexadecimal": {group("0x10"), `volume_mount_group "0x10" is not a number from 0 to 2147483647`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, installed := range []error{nil, &csidriver.Error{Name: driverName, Kind: csidriver.Missing}} {
				b := newBench(t, installed)
				request := publishRequest()
				tc.change(request)
				_, err := b.NodePublishVolume(t.Context(), request)
				checkStatus(t, err, codes.InvalidArgument, tc.want)
				b.checkNothingGotThrough()
				b.checkAsked(0)
				checkNoToken(t, err.Error())
			}
		})
	}
}

// TestBadTargetsAreRefused has paths that a kubelet never names.
func TestBadTargetsAreRefused(t *testing.T) {
	t.Parallel()
	for name, path := range map[string]string{
		"elsewhere":                     "/etc/mount",
		"the kubelet's directory":       kubeletDir,
		"a name that only begins alike": kubeletDir + "-other/mount",
		"dots that lead out":            kubeletDir + "/../../../etc/mount",
		"dots that stay inside":         kubeletDir + "/pods/../pods/mount",
		"a trailing slash":              target + "/",
		"two slashes":                   kubeletDir + "//mount",
		"a dot":                         kubeletDir + "/./mount",
		"relative":                      strings.TrimPrefix(target, "/"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, err := range newBench(t, nil).refuseTarget(path) {
				checkStatus(t, err, codes.InvalidArgument,
					`target_path "`+path+`" is not a clean path below the kubelet's directory /var/lib/kubelet (see --kubelet-dir)`)
			}
		})
	}
}

// TestTargetsOfAKubeletElsewhere: the kubelet was given the path behind the link that the driver was given, or the other
// way round.
func TestTargetsOfAKubeletElsewhere(t *testing.T) {
	t.Parallel()
	path := "/data/kubelet" + strings.TrimPrefix(target, kubeletDir)
	for _, err := range newBench(t, nil).refuseTarget(path) {
		checkStatus(t, err, codes.InvalidArgument, `target_path "`+path+`" is not a clean path below the kubelet's `+
			"directory /var/lib/kubelet: set the chart's value kubeletDir (--kubelet-dir) to /data/kubelet, which is the "+
			"kubelet's --root-dir")
	}
}

// TestTargetsThatAreNoPaths, and texts that would be more than one line of a log: little of them is repeated.
func TestTargetsThatAreNoPaths(t *testing.T) {
	t.Parallel()
	for name, path := range map[string]string{
		"a NUL at the end":                 target + "\x00",
		"a NUL in front":                   "\x00" + target,
		"a NUL before what would be wrong": target + "\x00/../../../../../../../outside/mount",
		"too long by one":                  target + strings.Repeat("x", 4096-len(target)),
		"far too long":                     target + strings.Repeat("/volumes", 100_000),
		"a line break":                     "/\ntime=now level=INFO msg=forged",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for call, err := range newBench(t, nil).refuseTarget(path) {
				text := status.Convert(err).Message()
				if status.Code(err) != codes.InvalidArgument || len(text) > 300 || strings.ContainsAny(text, "\x00\n") {
					t.Errorf("%s = %s %q, want one short line", call, status.Code(err), text)
				}
			}
		})
	}
}

func TestUnpublish(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	request := &csi.NodeUnpublishVolumeRequest{VolumeId: volumeID, TargetPath: target}
	for range 2 {
		if _, err := b.NodeUnpublishVolume(t.Context(), request); err != nil {
			t.Fatal(err)
		}
	}
	asked := [2]string{volumeID, target}
	wantSame(t, "unpublished", [][2]string{asked, asked}, b.volumes.asked)
}
