package server

import (
	"context"
	"errors"
	"path/filepath"
	"sync"

	"google.golang.org/grpc"
	"k8s.io/klog/v2"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/liveconfig-csi/liveconfig/pkg/logkeys"
)

// csiVersion is the CSI version that kubelets ask registering drivers for.
const csiVersion = "1.0.0"

// errNotAsked is why a driver that has just started is not registered.
var errNotAsked = errors.New("the kubelet has not registered the driver yet")

// Registration tells the kubelet, which finds its socket in the plugin registration directory, where the driver listens.
type Registration struct {
	registerapi.UnimplementedRegistrationServer

	driver, endpoint string

	mu     sync.Mutex // Guards status.
	status error
}

var _ registerapi.RegistrationServer = (*Registration)(nil)

// NewRegistration returns a registration of the driver whose CSI socket the kubelet reaches at path endpoint.
func NewRegistration(driver, endpoint string) *Registration {
	return &Registration{driver: driver, endpoint: endpoint, status: errNotAsked}
}

// GetInfo answers the kubelet's question.
func (r *Registration) GetInfo(context.Context, *registerapi.InfoRequest) (*registerapi.PluginInfo, error) {
	return &registerapi.PluginInfo{
		Type: registerapi.CSIPlugin, Name: r.driver, Endpoint: r.endpoint, SupportedVersions: []string{csiVersion},
	}, nil
}

// NotifyRegistrationStatus takes the kubelet's verdict. A kubelet that refuses tries again by itself as long as the socket is
// there. It does so while it cannot reach the API server, and that is when volumes that are live need the driver to stay.
func (r *Registration) NotifyRegistrationStatus(
	ctx context.Context, s *registerapi.RegistrationStatus,
) (*registerapi.RegistrationStatusResponse, error) {
	logger := klog.FromContext(ctx)
	if s.GetPluginRegistered() {
		logger.V(2).Info("Registered with the kubelet", logkeys.Driver, r.driver)
		r.set(nil)
		return &registerapi.RegistrationStatusResponse{}, nil
	}
	logger.Error(errors.New(s.GetError()), "The kubelet did not register the driver and tries again", logkeys.Driver, r.driver)
	r.set(errors.New("the kubelet did not register the driver and tries again; see the log"))
	return &registerapi.RegistrationStatusResponse{}, nil
}

func (r *Registration) set(status error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status = status
}

// Check returns nil once the kubelet has registered the driver, and else why it has not.
func (r *Registration) Check() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.status
}

// RegistrationSocket returns where in dir a driver's registration is served.
func RegistrationSocket(dir, driver string) string { return filepath.Join(dir, driver+"-reg.sock") }

// Serve serves the registration on a socket in dir until ctx ends.
func (r *Registration) Serve(ctx context.Context, dir string, options ...grpc.ServerOption) error {
	l, err := Listen(ctx, RegistrationSocket(dir, r.driver))
	if err != nil {
		return err
	}
	s := grpc.NewServer(options...)
	registerapi.RegisterRegistrationServer(s, r)
	return Serve(ctx, l, s)
}
