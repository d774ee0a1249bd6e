// Package sanity runs csi-sanity against the real driver process. It is apart from test/driver because ginkgo allows no other
// flags for parallel tests.
package sanity

import (
	"context"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"
	"github.com/kubernetes-csi/csi-test/v5/pkg/sanity"
	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/ginkgo/v2/types"
	"github.com/onsi/gomega"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
	"github.com/liveconfig-csi/liveconfig/test/kit/fakekubelet"
	"github.com/liveconfig-csi/liveconfig/test/kit/node"
)

func TestMain(m *testing.M) { os.Exit(environment.Main(m)) }

// cannotServe are the reasons for which specs may be skipped: capabilities that have no meaning for read-only inline
// volumes that are made on the node. Nothing else may be.
var cannotServe = map[string]bool{
	"NodeStageVolume not supported":                             true, // Inline volumes are not staged.
	"NodeUnstageVolume not supported":                           true,
	"NodeExpandVolume not supported":                            true, // They have no size that a user could ask for.
	"NodeGetStorageHealth not supported":                        true, // There is no storage behind them.
	"Service does not have single node multi writer capability": true, // They have no writers.
}

// TestCSI runs the Identity and Node specs against a driver that reads manifests. Two stand-ins do what is not a node driver's business: the client adds what
// only a kubelet knows, and a provisioner hands out volumes, without which the specs would skip publishing altogether.
func TestCSI(t *testing.T) {
	manifests := t.TempDir()
	manifest := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: sanity}\ndata: {key: value}\n"
	if err := os.WriteFile(filepath.Join(manifests, "sanity.yaml"), []byte(manifest), 0o600); err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "sanity", UID: "11111111-2222-3333-4444-555555555555"}}
	n := environment.NodeWithout(t, manifests)
	volumes := filepath.Dir(filepath.Dir(n.Target(pod, "any")))
	if err := os.MkdirAll(volumes, 0o750); err != nil {
		t.Fatal(err)
	}

	config := sanity.NewTestConfig()
	config.Address = n.Socket()
	config.TargetPath = filepath.Join(volumes, "sanity")
	config.StagingPath = filepath.Join(volumes, "staging")
	config.DialOptions = append(config.DialOptions, grpc.WithUnaryInterceptor(asKubelet(pod, startProvisioner(t))))
	suite := sanity.GinkgoTest(&config)
	report := collectReport()
	gomega.RegisterFailHandler(ginkgo.Fail)
	selection, output := ginkgo.GinkgoConfiguration()
	selection.FocusStrings = []string{"Node Service", "Identity Service"}
	ginkgo.RunSpecs(t, "csi-sanity", selection, output)
	suite.Finalize()
	report.check(t)
}

// asKubelet adds to publish requests what a kubelet would. Calls of the controller service go to the provisioner, and the
// driver's capabilities are changed to include it.
func asKubelet(pod *corev1.Pod, provisioner *grpc.ClientConn) grpc.UnaryClientInterceptor {
	readOnly := true
	return func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, call grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		if strings.HasPrefix(method, "/csi.v1.Controller/") {
			return call(ctx, method, req, reply, provisioner, opts...)
		}
		if publish, ok := req.(*csi.NodePublishVolumeRequest); ok {
			complete := proto.CloneOf(publish)
			complete.Readonly = true
			complete.VolumeContext = fakekubelet.PublishRequest("", pod, corev1.Volume{
				Name: "sanity",
				VolumeSource: corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{
					Driver: node.DriverName, ReadOnly: &readOnly, VolumeAttributes: publish.GetVolumeContext(),
				}},
			}).GetVolumeContext()
			req = complete
		}
		err := call(ctx, method, req, reply, cc, opts...)
		if capabilities, ok := reply.(*csi.GetPluginCapabilitiesResponse); ok && err == nil {
			capabilities.Capabilities = append(capabilities.Capabilities, &csi.PluginCapability{
				Type: &csi.PluginCapability_Service_{Service: &csi.PluginCapability_Service{
					Type: csi.PluginCapability_Service_CONTROLLER_SERVICE,
				}},
			})
		}
		return err
	}
}

// provisioner hands out volumes whose attributes name the ConfigMap of the test.
type provisioner struct {
	csi.UnimplementedControllerServer
}

// startProvisioner returns a connection to a provisioner that serves until the test ends.
func startProvisioner(t *testing.T) *grpc.ClientConn {
	t.Helper()
	dir, err := os.MkdirTemp("", "lc-p-") //nolint:usetesting // The path of a unix socket must be short.
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	socket := filepath.Join(dir, "csi.sock")
	l, err := new(net.ListenConfig).Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	csi.RegisterControllerServer(server, provisioner{})
	go func() { _ = server.Serve(l) }() // Ends with Stop.
	t.Cleanup(server.Stop)
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func (provisioner) ControllerGetCapabilities(
	context.Context, *csi.ControllerGetCapabilitiesRequest,
) (*csi.ControllerGetCapabilitiesResponse, error) {
	return &csi.ControllerGetCapabilitiesResponse{Capabilities: []*csi.ControllerServiceCapability{{
		Type: &csi.ControllerServiceCapability_Rpc{Rpc: &csi.ControllerServiceCapability_RPC{
			Type: csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME,
		}},
	}}}, nil
}

func (provisioner) CreateVolume(_ context.Context, req *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
	return &csi.CreateVolumeResponse{Volume: &csi.Volume{
		VolumeId: "csi-" + req.GetName(), CapacityBytes: req.GetCapacityRange().GetRequiredBytes(),
		VolumeContext: map[string]string{"configMap": "sanity"},
	}}, nil
}

func (provisioner) DeleteVolume(context.Context, *csi.DeleteVolumeRequest) (*csi.DeleteVolumeResponse, error) {
	return &csi.DeleteVolumeResponse{}, nil
}

// report is how the specs ended.
type report struct{ specs types.SpecReports }

// collectReport returns a report that is filled when the suite has run.
func collectReport() *report {
	r := &report{}
	ginkgo.ReportAfterSuite("collect", func(suite ginkgo.Report) { r.specs = suite.SpecReports })
	return r
}

// check fails the test when a selected spec was skipped for a reason that is not in cannotServe, when one of those
// reasons no longer occurs, or when publishing was not tested at all.
func (r *report) check(t *testing.T) {
	t.Helper()
	passed, published := 0, false
	reasons := map[string]bool{}
	for _, spec := range r.specs.WithLeafNodeType(types.NodeTypeIt) {
		switch {
		case spec.State == types.SpecStatePassed:
			passed++
			published = published || spec.LeafNodeText == "should be idempotent"
		case spec.State == types.SpecStateSkipped && spec.Failure.Message != "":
			reasons[spec.Failure.Message] = true
		}
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(cannotServe)), slices.Sorted(maps.Keys(reasons))); diff != "" {
		t.Errorf("reasons for skipped specs (-want +got):\n%s", diff)
	}
	if !published {
		t.Error("no spec that publishes repeatedly has passed")
	}
	t.Logf("csi-sanity: %d specs passed", passed)
}
