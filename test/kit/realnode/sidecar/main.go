// Sidecar stands in, on nodes without a registry, for two programs of the CSI project that run beside drivers. It takes
// their flags and speaks their protocols:
//
//	sidecar --csi-address=PATH --kubelet-registration-path=PATH    node-driver-registrar
//	sidecar --csi-address=PATH --health-port=PORT                  livenessprobe
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

// registrationDir is where the registrar's container has the kubelet's directory of registrations.
const registrationDir = "/registration"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGTERM, unix.SIGINT)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "sidecar:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	address := flag.String("csi-address", "", "the driver's socket")
	registered := flag.String("kubelet-registration-path", "", "where the kubelet finds the socket")
	port := flag.Int("health-port", 0, "where health is served")
	flag.Parse()
	conn, err := grpc.NewClient("unix://"+*address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	driver := csi.NewIdentityClient(conn)
	switch {
	case *registered != "":
		return register(ctx, driver, *registered)
	case *port != 0:
		return serveHealth(ctx, driver, *port)
	}
	return errors.New("give --kubelet-registration-path or --health-port")
}

// registrar registers the driver with the kubelet.
type registrar struct {
	registerapi.UnimplementedRegistrationServer

	name, endpoint string
	refused        chan<- string
}

// GetInfo answers the kubelet's question.
func (r registrar) GetInfo(context.Context, *registerapi.InfoRequest) (*registerapi.PluginInfo, error) {
	return &registerapi.PluginInfo{
		Type: registerapi.CSIPlugin, Name: r.name, Endpoint: r.endpoint, SupportedVersions: []string{"1.0.0"},
	}, nil
}

// NotifyRegistrationStatus ends the program if the kubelet refuses, as the registrar ends.
func (r registrar) NotifyRegistrationStatus(
	_ context.Context, s *registerapi.RegistrationStatus,
) (*registerapi.RegistrationStatusResponse, error) {
	if !s.GetPluginRegistered() {
		r.refused <- s.GetError()
	}
	return &registerapi.RegistrationStatusResponse{}, nil
}

func register(ctx context.Context, driver csi.IdentityClient, endpoint string) error {
	info, err := driver.GetPluginInfo(ctx, &csi.GetPluginInfoRequest{}, grpc.WaitForReady(true))
	if err != nil {
		return err
	}
	socket := filepath.Join(registrationDir, info.GetName()+"-reg.sock")
	if err := os.RemoveAll(socket); err != nil {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "unix", socket)
	if err != nil {
		return err
	}
	refused := make(chan string, 1)
	s := grpc.NewServer()
	registerapi.RegisterRegistrationServer(s, registrar{name: info.GetName(), endpoint: endpoint, refused: refused})
	failed := make(chan error, 1)
	go func() { failed <- s.Serve(listener) }()
	defer s.Stop()
	select {
	case why := <-refused:
		return errors.New("the kubelet refused: " + why)
	case err := <-failed:
		return err
	case <-ctx.Done():
		return nil
	}
}

// serveHealth asks the driver whenever it is asked.
func serveHealth(ctx context.Context, driver csi.IdentityClient, port int) error {
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, r *http.Request) {
		answer, err := driver.Probe(r.Context(), &csi.ProbeRequest{})
		if err != nil || answer.GetReady() != nil && !answer.GetReady().GetValue() {
			http.Error(w, fmt.Sprint("the driver is not ready: ", err), http.StatusInternalServerError)
		}
	})
	s := &http.Server{Addr: ":" + strconv.Itoa(port), Handler: mux, ReadHeaderTimeout: time.Second}
	context.AfterFunc(ctx, func() { _ = s.Close() })
	if err := s.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
