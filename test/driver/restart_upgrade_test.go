package driver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
	"github.com/liveconfig-csi/liveconfig/test/kit/fixture"
	"github.com/liveconfig-csi/liveconfig/test/kit/node"
)

// registered returns an error unless a kubelet that looks into the directory would learn of the driver and its socket. It
// makes the kubelet's call without knowing the message, in which both are text.
func registered(ctx context.Context, dir, csiSocket string) error {
	conn, err := grpc.NewClient("unix://"+registrationSocket(dir), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	var info emptypb.Empty
	if err := conn.Invoke(ctx, "/pluginregistration.Registration/GetInfo", &emptypb.Empty{}, &info); err != nil {
		return err
	}
	said := info.ProtoReflect().GetUnknown()
	if !bytes.Contains(said, []byte(node.DriverName)) || !bytes.Contains(said, []byte(csiSocket)) {
		return fmt.Errorf("the registration says %q", said)
	}
	return nil
}

func wantRegistered(b *fixture.Fixture, dir string) {
	b.T.Helper()
	environment.Eventually(b.T, fixture.Soon, func() error { return registered(b.T.Context(), dir, b.Node.Socket()) })
}

// TestTheRegistrationOutlivesEveryUpgrade (fault 22): whatever happens to the driver, the kubelet finds its registration
// as soon as there is a driver, and never one that nobody serves after a clean end. In an upgrade with two drivers
// for a while, the new one waits for the end of the old one, which takes nothing from it.
func TestTheRegistrationOutlivesEveryUpgrade(t *testing.T) {
	t.Parallel()
	dir := registrationDir(t)
	b := fixture.New(t, "--registration-dir="+dir)
	b.CreateConfigMap("web", map[string]string{"n": "1"})
	pod := b.Pod("web", map[string]string{"configMap": "web"})
	must(t, b.TryPublish(t.Context(), pod))
	wantRegistered(b, dir)
	for range 3 {
		b.Kill()
		b.Start()
		wantRegistered(b, dir)
	}
	b.Stop()
	if left, err := os.ReadDir(dir); len(left) != 0 || err != nil {
		t.Errorf("after the end the registration directory holds %v, %v, want nothing", left, err)
	}
	b.Start()
	wantRegistered(b, dir)

	next := startSecond(b, fixture.FreeAddress(t))
	next.wantWaiting(b.Node.PID())
	b.Stop()
	wantServing(b)
	wantRegistered(b, dir)
	b.UpdateConfigMap("web", map[string]string{"n": "2"})
	b.WantFile(pod, "n", "2")
	ctx, cancel := context.WithTimeout(t.Context(), fixture.Soon) // A kubelet waits for a socket that is missing.
	defer cancel()
	if err := errors.Join(b.TryPublish(ctx, pod), b.Node.UnpublishAll(ctx, pod)); err != nil {
		t.Error(err)
	}
	b.WantNothing(pod, "unpublished by the new driver")
	if err := next.Stop(fixture.Soon); err != nil {
		t.Error(err)
	}
}

// fileOf returns nil where there is none.
func fileOf(path string) os.FileInfo {
	info, err := os.Lstat(path)
	if err != nil {
		return nil
	}
	return info
}

// registrationSocket is where a kubelet looks for the driver.
func registrationSocket(dir string) string { return filepath.Join(dir, node.DriverName+"-reg.sock") }
