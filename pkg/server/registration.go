package server

import (
	"context"
	"fmt"
	"path/filepath"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"k8s.io/klog/v2"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/liveconfig-csi/liveconfig/pkg/logkeys"
)

// csiVersion is the CSI version that kubelets ask registering drivers for.
const csiVersion = "1.0.0"

// Registration tells the kubelet, which finds its socket in the plugin registration directory, where the driver listens.
type Registration struct {
	registerapi.UnimplementedRegistrationServer

	driver, endpoint string
	refused          chan error // Holds the kubelet's refusal.
}

var _ registerapi.RegistrationServer = (*Registration)(nil)

// NewRegistration returns a registration of the driver whose CSI socket the kubelet reaches at path endpoint.
func NewRegistration(driver, endpoint string) *Registration {
	return &Registration{driver: driver, endpoint: endpoint, refused: make(chan error, 1)}
}

// GetInfo answers the kubelet's question.
func (r *Registration) GetInfo(context.Context, *registerapi.InfoRequest) (*registerapi.PluginInfo, error) {
	return &registerapi.PluginInfo{
		Type: registerapi.CSIPlugin, Name: r.driver, Endpoint: r.endpoint, SupportedVersions: []string{csiVersion},
	}, nil
}

// NotifyRegistrationStatus takes the kubelet's verdict. A refusal ends Serve, so that a restart tries again in the open.
func (r *Registration) NotifyRegistrationStatus(
	ctx context.Context, s *registerapi.RegistrationStatus,
) (*registerapi.RegistrationStatusResponse, error) {
	if s.GetPluginRegistered() {
		klog.FromContext(ctx).V(2).Info("Registered with the kubelet", logkeys.Driver, r.driver)
		return &registerapi.RegistrationStatusResponse{}, nil
	}
	select {
	case r.refused <- fmt.Errorf("the kubelet refused to register driver %s: %s", r.driver, s.GetError()):
	default: // One refusal is enough.
	}
	return &registerapi.RegistrationStatusResponse{}, nil
}

// RegistrationSocket returns where in dir a driver's registration is served.
func RegistrationSocket(dir, driver string) string { return filepath.Join(dir, driver+"-reg.sock") }

// Serve serves the registration on a socket in dir until ctx ends or the kubelet refuses the driver.
func (r *Registration) Serve(ctx context.Context, dir string, options ...grpc.ServerOption) error {
	l, err := Listen(ctx, RegistrationSocket(dir, r.driver))
	if err != nil {
		return err
	}
	s := grpc.NewServer(options...)
	registerapi.RegisterRegistrationServer(s, r)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return Serve(ctx, l, s) })
	g.Go(func() error {
		select {
		case err := <-r.refused:
			return err
		case <-ctx.Done():
			return nil
		}
	})
	return g.Wait()
}
