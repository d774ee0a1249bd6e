package server

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"sync"
	"time"

	"google.golang.org/grpc"
	"k8s.io/klog/v2"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/liveconfig-csi/liveconfig/pkg/daemon/logkeys"
)

// csiVersion is the CSI version that kubelets ask registering drivers for.
const csiVersion = "1.0.0"

// How long the kubelet is left alone after a refusal: at first, and at most.
const (
	firstSocketRetry = 500 * time.Millisecond
	lastPause        = 30 * time.Second
)

// Why a driver that the kubelet has not refused is not registered.
var (
	errNotAsked = errors.New("the kubelet has not registered the driver yet")
	errNoSocket = errors.New("there is no socket on which the kubelet could register the driver, and it is tried " +
		"again; see the log")
)

// Registration serves the socket in the plugin registration directory through which the kubelet
// finds the driver.
type Registration struct {
	registerapi.UnimplementedRegistrationServer

	driver, endpoint string

	mu      sync.Mutex // Guards the fields below.
	status  error
	refused chan struct{} // Closed when the kubelet refuses; each socket has a new one.
}

var _ registerapi.RegistrationServer = (*Registration)(nil)

// NewRegistration returns a registration of the driver whose CSI socket the kubelet reaches at path
// endpoint.
func NewRegistration(driver, endpoint string) *Registration {
	return &Registration{driver: driver, endpoint: endpoint, status: errNotAsked}
}

// GetInfo answers the kubelet's question.
func (r *Registration) GetInfo(context.Context, *registerapi.InfoRequest) (*registerapi.PluginInfo, error) {
	return &registerapi.PluginInfo{
		Type: registerapi.CSIPlugin, Name: r.driver, Endpoint: r.endpoint, SupportedVersions: []string{csiVersion},
	}, nil
}

// NotifyRegistrationStatus takes the kubelet's verdict. A kubelet refuses while it cannot reach the
// API server, and that is when volumes that are live need the driver to stay.
func (r *Registration) NotifyRegistrationStatus(
	ctx context.Context, s *registerapi.RegistrationStatus,
) (*registerapi.RegistrationStatusResponse, error) {
	logger := klog.FromContext(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	if s.GetPluginRegistered() {
		logger.V(2).Info("Registered with the kubelet", logkeys.Driver, r.driver)
		r.status = nil
		return &registerapi.RegistrationStatusResponse{}, nil
	}
	logger.Error(errors.New(s.GetError()), "The kubelet did not register the driver and is asked again", logkeys.Driver,
		r.driver)
	r.status = errors.New("the kubelet did not register the driver and is asked again; see the log")
	if r.refused != nil {
		close(r.refused)
		r.refused = nil
	}
	return &registerapi.RegistrationStatusResponse{}, nil
}

// Check returns nil once the kubelet has registered the driver, and else why it has not.
func (r *Registration) Check() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.status
}

// RegistrationSocket returns where in dir a driver's registration is served.
func RegistrationSocket(dir, driver string) string { return filepath.Join(dir, driver+"-reg.sock") }

// Serve serves the registration on a socket in dir until ctx ends. When the kubelet has refused,
// the socket goes and, after a pause that grows with each refusal, comes back: kubelets before 1.36
// ask once for each socket that they see. A directory that cannot be used is an error only at the
// start. Later it is waited for: live volumes need the driver.
func (r *Registration) Serve(ctx context.Context, dir string, options ...grpc.ServerOption) error {
	path := RegistrationSocket(dir, r.driver)
	l, err := Listen(ctx, path)
	if err != nil {
		return err
	}
	for pause := firstSocketRetry; ; {
		began := time.Now()
		if err := r.serveOnce(ctx, l, options); err != nil {
			return err
		}
		if time.Since(began) > lastPause { // This refusal is not one of a row.
			pause = firstSocketRetry
		}
		if l, pause = r.listenAgain(ctx, path, pause); l == nil {
			return nil
		}
	}
}

// listenAgain listens after a pause, however often that takes, and returns the next pause. Without
// a listener ctx has ended.
func (r *Registration) listenAgain(
	ctx context.Context, path string, pause time.Duration,
) (net.Listener, time.Duration) {
	for {
		select {
		case <-time.After(pause):
			pause = min(2*pause, lastPause)
		case <-ctx.Done():
			return nil, pause
		}
		l, err := Listen(ctx, path)
		if err == nil {
			return l, pause
		}
		if ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "The driver cannot listen for the kubelet's registration; it will try again",
				logkeys.Driver, r.driver)
			r.setStatus(errNoSocket)
		}
	}
}

// serveOnce serves one socket until ctx ends or the kubelet refuses.
func (r *Registration) serveOnce(ctx context.Context, l net.Listener, options []grpc.ServerOption) error {
	s := grpc.NewServer(options...)
	registerapi.RegisterRegistrationServer(s, r)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	refused := r.expect()
	go func() {
		select {
		case <-refused:
			stop()
		case <-ctx.Done():
		}
	}()
	return Serve(ctx, l, s)
}

// expect returns a channel that is closed at the next refusal.
func (r *Registration) expect() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	refused := make(chan struct{})
	r.refused = refused
	return refused
}

func (r *Registration) setStatus(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status = err
}
