package nodeserver_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/wrapperspb"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	"github.com/liveconfig-csi/liveconfig/pkg/driver/access"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/nodeserver"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/state"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/volume"
	"github.com/liveconfig-csi/liveconfig/pkg/files/volumefs"
)

const (
	driverName = "csi.example.test"
	kubeletDir = "/var/lib/kubelet"
	podUID     = "11111111-2222-3333-4444-555555555555"
	target     = kubeletDir + "/pods/" + podUID + "/volumes/kubernetes.io~csi/config/mount"
	volumeID   = "csi-0123456789abcdef"
)

// fakeVolumes answers as the test has set, and keeps what it was asked.
type fakeVolumes struct {
	err     error // Of Publish and Unpublish, and of Condition.
	problem error
	live    [2]string // Volume ID and target of the live volume; empty for none.

	mu        sync.Mutex // Guards the fields below.
	published []state.Record
	tokens    []access.Token
	asked     [][2]string // Volume ID and target of Unpublish and Condition.
}

var _ nodeserver.Volumes = (*fakeVolumes)(nil)

// Publish vouches as [volume.Manager.Publish] does.
func (f *fakeVolumes) Publish(ctx context.Context, r volume.Request) error {
	isLive := f.live == [2]string{r.Record.VolumeID, r.Record.TargetPath}
	if !isLive {
		if err := r.Vouch(ctx); err != nil {
			return err
		}
		if r.Unnamed != nil {
			return r.Unnamed
		}
	}
	if r.Unnamed != nil {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.published = append(f.published, r.Record)
	f.tokens = append(f.tokens, r.Token())
	return f.err
}

func (f *fakeVolumes) Unpublish(_ context.Context, volumeID, target string) error {
	f.ask(volumeID, target)
	return f.err
}

func (f *fakeVolumes) Condition(volumeID, target string) (problem, err error) {
	f.ask(volumeID, target)
	return f.problem, f.err
}

func (f *fakeVolumes) ask(volumeID, target string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, [2]string{volumeID, target})
}

func (f *fakeVolumes) touched() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.published)+len(f.asked) > 0
}

// fakeInstallation answers as the test has set, and counts how often it is asked.
type fakeInstallation struct {
	err error
	// wait makes it answer only when the call is over.
	wait  bool
	asked chan struct{} // Has room for every call.
}

var _ nodeserver.Installation = (*fakeInstallation)(nil)

func newFakeInstallation(err error) *fakeInstallation {
	return &fakeInstallation{err: err, asked: make(chan struct{}, 100)}
}

func (f *fakeInstallation) Check(ctx context.Context) error {
	f.asked <- struct{}{}
	if f.wait {
		<-ctx.Done()
	}
	return f.err
}

// bench is a driver, what it is put together from, and what it logs.
type bench struct {
	csi.IdentityClient
	csi.NodeClient
	t            *testing.T
	volumes      *fakeVolumes
	installation *fakeInstallation
	ready        error
	usage        nodeserver.Usage
	log          ktesting.Buffer
}

// newBench returns one whose installation is as the error describes; nil for as it should be.
func newBench(t *testing.T, installed error) *bench {
	t.Helper()
	b := &bench{t: t, volumes: &fakeVolumes{}, installation: newFakeInstallation(installed), usage: usageOfTarget}
	b.serve()
	return b
}

// serve serves the driver until the end of the test, and connects to it.
func (b *bench) serve() {
	t := b.t
	t.Helper()
	logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true), ktesting.Verbosity(10)))
	sink, ok := logger.GetSink().(ktesting.Underlier)
	if !ok {
		t.Fatalf("the test logger is a %T", logger.GetSink())
	}
	d := nodeserver.New(nodeserver.Config{
		Name: driverName, Version: "v1.2.3", NodeID: "node-1", KubeletDir: kubeletDir, Installation: b.installation, Volumes: b.volumes,
		Usage: func(path string) (volumefs.Usage, error) { return b.usage(path) }, Ready: func() error { return b.ready },
	})
	s := grpc.NewServer(grpc.WaitForHandlers(true), grpc.UnaryInterceptor(
		func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
			return handler(klog.NewContext(ctx, logger), req)
		}))
	csi.RegisterIdentityServer(s, d)
	csi.RegisterNodeServer(s, d)
	l := bufconn.Listen(1 << 16)
	go func() { _ = s.Serve(l) }() // Ends with Stop.
	t.Cleanup(s.Stop)
	conn, err := grpc.NewClient("passthrough:///driver", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	b.IdentityClient, b.NodeClient, b.log = csi.NewIdentityClient(conn), csi.NewNodeClient(conn), sink.GetBuffer()
}

func (b *bench) publish(r *csi.NodePublishVolumeRequest) {
	b.t.Helper()
	if _, err := b.NodePublishVolume(b.t.Context(), r); err != nil {
		b.t.Fatal(err)
	}
}

// refuseTarget publishes and unpublishes on a path, neither of which may get through, and returns their errors.
func (b *bench) refuseTarget(path string) map[string]error {
	b.t.Helper()
	request := publishRequest()
	request.TargetPath = path
	_, publish := b.NodePublishVolume(b.t.Context(), request)
	_, unpublish := b.NodeUnpublishVolume(b.t.Context(), &csi.NodeUnpublishVolumeRequest{VolumeId: volumeID, TargetPath: path})
	b.checkNothingGotThrough()
	return map[string]error{"publish": publish, "unpublish": unpublish}
}

func (b *bench) checkNothingGotThrough() {
	b.t.Helper()
	if b.volumes.touched() {
		b.t.Error("a request got through that should not")
	}
}

// checkAsked checks how often it was asked whether the kubelet vouches for pods.
func (b *bench) checkAsked(want int) {
	b.t.Helper()
	if got := len(b.installation.asked); got != want {
		b.t.Errorf("asked for the installation %d times, want %d", got, want)
	}
}

// checkNoToken fails the test if the text holds any part of a token that jwt has made.
func checkNoToken(t *testing.T, text string) {
	t.Helper()
	for _, part := range []string{"t0ken", "eyJ"} {
		if strings.Contains(text, part) {
			t.Errorf("%q is a part of a token, in:\n%s", part, text)
		}
	}
}

func checkStatus(t *testing.T, err error, code codes.Code, message string) {
	t.Helper()
	if got := status.Code(err); got != code {
		t.Errorf("code = %s, want %s", got, code)
	}
	wantSame(t, "message", message, status.Convert(err).Message())
}

func checkMessage(t *testing.T, got, want proto.Message, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	wantSame(t, "response", want, got, protocmp.Transform())
}

func TestIdentity(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	info, err := b.GetPluginInfo(t.Context(), &csi.GetPluginInfoRequest{})
	checkMessage(t, info, &csi.GetPluginInfoResponse{Name: driverName, VendorVersion: "v1.2.3"}, err)
	capabilities, err := b.GetPluginCapabilities(t.Context(), &csi.GetPluginCapabilitiesRequest{})
	checkMessage(t, capabilities, &csi.GetPluginCapabilitiesResponse{}, err)
}

func TestProbeReportsTheState(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	for _, b.ready = range []error{errors.New("not yet"), nil} {
		response, err := b.Probe(t.Context(), &csi.ProbeRequest{})
		checkMessage(t, response, &csi.ProbeResponse{Ready: wrapperspb.Bool(b.ready == nil)}, err)
	}
}

func TestNodeGetInfo(t *testing.T) {
	t.Parallel()
	info, err := newBench(t, nil).NodeGetInfo(t.Context(), &csi.NodeGetInfoRequest{})
	checkMessage(t, info, &csi.NodeGetInfoResponse{NodeId: "node-1"}, err)
}

// TestNodeGetCapabilities has VOLUME_MOUNT_GROUP among them, so that fsGroup is left to the driver (trap 5).
func TestNodeGetCapabilities(t *testing.T) {
	t.Parallel()
	response, err := newBench(t, nil).NodeGetCapabilities(t.Context(), &csi.NodeGetCapabilitiesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	got := map[csi.NodeServiceCapability_RPC_Type]int{}
	for _, c := range response.GetCapabilities() {
		got[c.GetRpc().GetType()]++
	}
	const volumeCondition = 4 // Its number in CSI 1.12, the last version that had it.
	want := map[csi.NodeServiceCapability_RPC_Type]int{
		csi.NodeServiceCapability_RPC_VOLUME_MOUNT_GROUP: 1,
		csi.NodeServiceCapability_RPC_GET_VOLUME_STATS:   1,
		csi.NodeServiceCapability_RPC_GET_VOLUME_HEALTH:  1,
		volumeCondition: 1,
	}
	wantSame(t, "capabilities", want, got)
}

func TestWhatIsNotServed(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	_, staged := b.NodeStageVolume(t.Context(), &csi.NodeStageVolumeRequest{})
	_, expanded := b.NodeExpandVolume(t.Context(), &csi.NodeExpandVolumeRequest{})
	for call, err := range map[string]error{"NodeStageVolume": staged, "NodeExpandVolume": expanded} {
		if got := status.Code(err); got != codes.Unimplemented {
			t.Errorf("%s = %s, want %s", call, got, codes.Unimplemented)
		}
	}
}

func wantSame[T any](t *testing.T, what string, want, got T, options ...cmp.Option) {
	t.Helper()
	if diff := cmp.Diff(want, got, options...); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}
