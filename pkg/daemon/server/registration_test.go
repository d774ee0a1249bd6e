package server_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/testing/protocmp"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/liveconfig-csi/liveconfig/pkg/daemon/server"
	"github.com/liveconfig-csi/liveconfig/pkg/expect"
)

const (
	driverName = "csi.example.test"
	endpoint   = "/run/csi.example.test/csi.sock"
)

// register serves the registration until stop is called; the socket's directory is as a kubelet would watch it.
func register(t *testing.T) (r *server.Registration, path string, stop func(), served <-chan error) {
	t.Helper()
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 1)
	r = server.NewRegistration(driverName, endpoint)
	go func() { result <- r.Serve(ctx, dir) }()
	t.Cleanup(cancel)
	return r, filepath.Join(dir, driverName+"-reg.sock"), cancel, result
}

// ask makes the call that a kubelet makes when it finds the socket.
func ask(t *testing.T, client registerapi.RegistrationClient) *registerapi.PluginInfo {
	t.Helper()
	info, err := client.GetInfo(t.Context(), &registerapi.InfoRequest{}, grpc.WaitForReady(true))
	expect.NoError(t, err)
	return info
}

// notify gives the kubelet's verdict on a driver that it has asked.
func notify(t *testing.T, path string, verdict *registerapi.RegistrationStatus) {
	t.Helper()
	kubelet := registerapi.NewRegistrationClient(dial(t, path))
	ask(t, kubelet)
	_, err := kubelet.NotifyRegistrationStatus(t.Context(), verdict)
	expect.NoError(t, err)
}

func end(t *testing.T, stop func(), served <-chan error) {
	t.Helper()
	stop()
	if err := <-served; err != nil {
		t.Errorf("Serve = %v, want nil", err)
	}
}

// TestRegistration is fault 22.
func TestRegistration(t *testing.T) {
	t.Parallel()
	r, path, stop, served := register(t)
	kubelet := registerapi.NewRegistrationClient(dial(t, path))
	if err := r.Check(); err == nil {
		t.Error("the driver is registered before any kubelet has asked")
	}
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
		if err := r.Check(); err != nil {
			t.Errorf("Check = %v after the kubelet has registered the driver", err)
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
	end(t, stop, served)
	if exists(t, path) { // A kubelet takes a driver for gone when its socket is.
		t.Errorf("%s is there after Serve has returned", path)
	}
}

// TestRegistrationRefused is fault 22: a kubelet that cannot reach the API server refuses. Until it registers the driver, live
// volumes need the driver. A kubelet before 1.36 asks once for each socket.
func TestRegistrationRefused(t *testing.T) {
	t.Parallel()
	r, path, stop, served := register(t)
	for _, verdict := range []*registerapi.RegistrationStatus{
		{Error: "error updating Node object: dial tcp 10.0.0.1:443: connection refused"}, {Error: "again"}, {PluginRegistered: true},
	} {
		conn := dial(t, path)
		kubelet := registerapi.NewRegistrationClient(conn)
		ask(t, kubelet)
		before := identityOf(t, path)
		if _, err := kubelet.NotifyRegistrationStatus(t.Context(), verdict); err != nil {
			t.Errorf("the kubelet gets %v, want no error", err)
		}
		err := r.Check()
		if registered := err == nil; registered != verdict.GetPluginRegistered() {
			t.Errorf("Check = %v after %v", err, verdict)
		}
		if err != nil && strings.Contains(err.Error(), "10.0.0.1") {
			t.Errorf("Check = %v, want no address: anybody may read it", err)
		}
		if verdict.GetPluginRegistered() {
			break
		}
		waitUntil(t, func() bool { return !exists(t, path) || identityOf(t, path) != before })
		waitUntil(t, func() bool { return exists(t, path) })
	}
	select {
	case err := <-served:
		t.Errorf("Serve = %v, want it to go on", err)
	default:
	}
	end(t, stop, served)
}

// identityOf distinguishes one socket of a path from the next, which may get its inode number.
func identityOf(t *testing.T, path string) string {
	t.Helper()
	var stat unix.Stat_t
	if err := unix.Lstat(path, &stat); err != nil && !errors.Is(err, unix.ENOENT) {
		t.Fatal(err)
	}
	return fmt.Sprint(stat.Ino, stat.Ctim)
}

// TestRegistrationOutlivesItsDirectory is fault 22: removing the directory while the kubelet refuses must not end the driver,
// which live volumes need.
func TestRegistrationOutlivesItsDirectory(t *testing.T) {
	t.Parallel()
	inTheWay := map[string]func(dir string) error{
		"there is none":          func(string) error { return nil },
		"a file is in its place": func(dir string) error { return os.WriteFile(dir, nil, 0o600) },
	}
	for name, replace := range inTheWay {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, path, stop, served := register(t)
			notify(t, path, &registerapi.RegistrationStatus{Error: "no"})
			refused := fmt.Sprint(r.Check())
			dir := filepath.Dir(path)
			expect.NoError(t, errors.Join(os.RemoveAll(dir), replace(dir)))
			waitUntil(t, func() bool { return fmt.Sprint(r.Check()) != refused })
			if err := r.Check(); err == nil || strings.Contains(err.Error(), dir) {
				t.Errorf("Check = %v without a directory, want an error without its path: anybody may read it", err)
			}
			expect.NoError(t, errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o700)))
			waitUntil(t, func() bool { return exists(t, path) })
			notify(t, path, &registerapi.RegistrationStatus{PluginRegistered: true})
			if err := r.Check(); err != nil {
				t.Errorf("Check = %v after the kubelet has registered the driver", err)
			}
			end(t, stop, served)
		})
	}
}

// TestRegistrationEndsWithoutItsDirectory: what is waited for does not keep the driver from ending.
func TestRegistrationEndsWithoutItsDirectory(t *testing.T) {
	t.Parallel()
	r, path, stop, served := register(t)
	notify(t, path, &registerapi.RegistrationStatus{Error: "no"})
	refused := fmt.Sprint(r.Check())
	expect.NoError(t, os.RemoveAll(filepath.Dir(path)))
	waitUntil(t, func() bool { return fmt.Sprint(r.Check()) != refused })
	end(t, stop, served)
}

// waitUntil returns when something has come about.
func waitUntil(t *testing.T, isSo func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !isSo(); {
		if time.Now().After(deadline) {
			t.Fatal("it does not come about")
		}
		<-time.After(time.Millisecond)
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
