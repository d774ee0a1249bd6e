package server_test

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/testing/protocmp"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/liveconfig-csi/liveconfig/pkg/server"
)

const (
	driverName = "csi.example.test"
	endpoint   = "/run/csi.example.test/csi.sock"
)

// register serves the registration until stop is called; the socket's directory is as a kubelet would watch it.
func register(t *testing.T) (path string, stop func(), served <-chan error) {
	t.Helper()
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 1)
	r := server.NewRegistration(driverName, endpoint)
	go func() { result <- r.Serve(ctx, dir) }()
	t.Cleanup(cancel)
	return filepath.Join(dir, driverName+"-reg.sock"), cancel, result
}

// ask makes the call that a kubelet makes when it finds the socket.
func ask(t *testing.T, client registerapi.RegistrationClient) *registerapi.PluginInfo {
	t.Helper()
	info, err := client.GetInfo(t.Context(), &registerapi.InfoRequest{}, grpc.WaitForReady(true))
	if err != nil {
		t.Fatal(err)
	}
	return info
}

// TestRegistration is fault 22.
func TestRegistration(t *testing.T) {
	t.Parallel()
	path, stop, served := register(t)
	kubelet := registerapi.NewRegistrationClient(dial(t, path))
	want := &registerapi.PluginInfo{
		Type: "CSIPlugin", Name: driverName, Endpoint: endpoint, SupportedVersions: []string{"1.0.0"},
	}
	for range 2 { // A kubelet that restarts asks again.
		if diff := cmp.Diff(want, ask(t, kubelet), protocmp.Transform()); diff != "" {
			t.Errorf("GetInfo (-want +got):\n%s", diff)
		}
		verdict := &registerapi.RegistrationStatus{PluginRegistered: true}
		if _, err := kubelet.NotifyRegistrationStatus(t.Context(), verdict); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := modeOf(t, path), fs.ModeSocket|0o600; got != want {
		t.Errorf("mode of the socket = %s, want %s", got, want)
	}
	select {
	case err := <-served:
		t.Fatalf("Serve returned %v after the driver was registered", err)
	default:
	}
	stop()
	if err := <-served; err != nil {
		t.Errorf("Serve = %v, want nil", err)
	}
	if exists(t, path) { // A kubelet takes a driver for gone when its socket is.
		t.Errorf("%s is there after Serve has returned", path)
	}
}

// TestRegistrationRefused is fault 22.
func TestRegistrationRefused(t *testing.T) {
	t.Parallel()
	path, _, served := register(t)
	kubelet := registerapi.NewRegistrationClient(dial(t, path))
	ask(t, kubelet)
	verdict := &registerapi.RegistrationStatus{Error: "a newer version is registered"}
	if _, err := kubelet.NotifyRegistrationStatus(t.Context(), verdict); err != nil {
		t.Errorf("the kubelet that refuses gets %v, want no error", err)
	}
	const want = "the kubelet refused to register driver csi.example.test: a newer version is registered"
	if err := <-served; err == nil || err.Error() != want {
		t.Errorf("Serve = %v, want %s", err, want)
	}
	if exists(t, path) {
		t.Errorf("%s is there after Serve has returned", path)
	}
}

func TestRegistrationRefusedTwice(t *testing.T) {
	t.Parallel()
	r := server.NewRegistration(driverName, endpoint)
	for _, why := range []string{"first", "second"} { // Nobody listens yet: neither call may block.
		if _, err := r.NotifyRegistrationStatus(t.Context(), &registerapi.RegistrationStatus{Error: why}); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Serve(t.Context(), t.TempDir()); err == nil || !strings.HasSuffix(err.Error(), ": first") {
		t.Errorf("Serve = %v, want the first refusal", err)
	}
}

func TestRegistrationNeedsItsDirectory(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "none")
	err := server.NewRegistration(driverName, endpoint).Serve(t.Context(), dir)
	if !os.IsNotExist(err) && (err == nil || !strings.Contains(err.Error(), "no such file or directory")) {
		t.Fatalf("Serve = %v, want no such file or directory", err)
	}
	if want := "listen on " + filepath.Join(dir, driverName+"-reg.sock") + ": "; !strings.HasPrefix(err.Error(), want) {
		t.Errorf("Serve = %q, want it to begin with %q", err, want)
	}
}
