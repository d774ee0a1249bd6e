package faults

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/liveconfig-csi/liveconfig/test/kit/bench"
	"github.com/liveconfig-csi/liveconfig/test/kit/lab"
	"github.com/liveconfig-csi/liveconfig/test/kit/node"
	"github.com/liveconfig-csi/liveconfig/test/kit/process"
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

func wantRegistered(b *bench.Bench, dir string) {
	b.T.Helper()
	lab.Eventually(b.T, bench.Soon, func() error { return registered(b.T.Context(), dir, b.Node.Socket()) })
}

// TestTheRegistrationOutlivesEveryUpgrade (fault 22): whatever happens to the driver, the kubelet finds its registration
// as soon as there is a driver, and never one that nobody serves after an end in good order. In an upgrade with two drivers
// for a while, the end of the old one takes nothing from the new one.
func TestTheRegistrationOutlivesEveryUpgrade(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "lc-reg-") //nolint:usetesting // The path of a socket must be short.
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	b := bench.New(t, "--registration-dir="+dir)
	b.CreateConfigMap("web", map[string]string{"n": "1"})
	pod := b.Pod("web", map[string]string{"configMap": "web"})
	if err := b.TryPublish(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
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

	next := startBeside(b, filepath.Join(dir, "next.log"))
	b.Stop()
	if err := registered(t.Context(), dir, b.Node.Socket()); err != nil {
		t.Errorf("the registration of the new driver, when the old one has gone: %v", err)
	}
	b.UpdateConfigMap("web", map[string]string{"n": "2"})
	b.WantFile(pod, "n", "2")
	ctx, cancel := context.WithTimeout(t.Context(), bench.Soon) // A kubelet waits for a socket that is missing.
	defer cancel()
	if err := errors.Join(b.TryPublish(ctx, pod), b.Node.UnpublishAll(ctx, pod)); err != nil {
		t.Error(err)
	}
	b.WantNothing(pod, "unpublished by the new driver")
	if err := next.Stop(bench.Soon); err != nil {
		t.Error(err)
	}
}

// startBeside starts another driver beside the one that runs, as it was started, and returns when it has taken over.
func startBeside(b *bench.Bench, log string) *process.Process {
	b.T.Helper()
	cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", b.Node.PID()))
	if err != nil {
		b.T.Fatal(err)
	}
	command := strings.Split(strings.TrimSuffix(string(cmdline), "\x00"), "\x00")
	command = slices.DeleteFunc(command, func(arg string) bool { return strings.HasPrefix(arg, "--http-endpoint=") })
	sockets := []string{b.Node.Socket(), registrationSocket(filepath.Dir(log))}
	var before []os.FileInfo
	for _, socket := range sockets {
		before = append(before, fileOf(socket))
	}
	next, err := process.Start(context.WithoutCancel(b.T.Context()), process.Config{Path: command[0], Args: command[1:], LogFile: log})
	if err != nil {
		b.T.Fatal(err)
	}
	b.T.Cleanup(func() { _ = next.Kill() })
	lab.Eventually(b.T, bench.Soon, func() error {
		for i, socket := range sockets {
			if now := fileOf(socket); now == nil || os.SameFile(before[i], now) {
				return errors.Join(fmt.Errorf("the second driver has not taken over %s", socket), next.Err())
			}
		}
		return registered(b.T.Context(), filepath.Dir(log), b.Node.Socket())
	})
	return next
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
