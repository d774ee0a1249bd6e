package driver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
	corev1 "k8s.io/api/core/v1"

	"github.com/liveconfig-csi/liveconfig/pkg/api/statusz"
	"github.com/liveconfig-csi/liveconfig/test/kit/expect"
	"github.com/liveconfig-csi/liveconfig/test/kit/fixture"
	"github.com/liveconfig-csi/liveconfig/test/kit/node"
	"github.com/liveconfig-csi/liveconfig/test/kit/process"
)

// second is a driver beside the one of a bench: the same flags, so the same state directory, sockets and volumes, but an HTTP
// endpoint and a separate log, as the pod of another installation has.
type second struct {
	*process.Process

	b   *fixture.Fixture
	own *fixture.Fixture // Of which there is nothing but HTTP.
	log string
}

// startSecond starts a driver beside the one that runs, with an address for HTTP, and returns at once. The test ends it.
func startSecond(b *fixture.Fixture, address string) *second {
	b.T.Helper()
	cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", b.Node.PID()))
	expect.NoError(b.T, err)
	command := strings.Split(strings.TrimSuffix(string(cmdline), "\x00"), "\x00")
	command = slices.DeleteFunc(command, func(arg string) bool { return strings.HasPrefix(arg, "--http-endpoint=") })
	s := &second{b: b, own: &fixture.Fixture{T: b.T, HTTP: address}, log: filepath.Join(b.T.TempDir(), "second.log")}
	s.Process, err = process.Start(context.WithoutCancel(b.T.Context()), process.Config{
		Path: command[0], Args: append(command[1:], "--http-endpoint="+address), LogFile: s.log,
	})
	expect.NoError(b.T, err)
	b.T.Cleanup(func() {
		_ = s.Kill()
		if b.T.Failed() {
			b.T.Logf("the log of the second driver ends with:\n%s", process.Tail(s.log, 8192))
		}
	})
	return s
}

// waits returns an error unless the second driver is alive, is not ready and reports everywhere for whom it waits.
func (s *second) waits(holder int) error {
	name, err := os.Hostname()
	if err != nil {
		return err
	}
	if got := healthOf(s.own, "/healthz"); got != "" {
		return fmt.Errorf("/healthz of the second driver says %q (%w)", got, s.Err())
	}
	for _, want := range []string{name, "process " + strconv.Itoa(holder), "node test-node", s.b.Node.StateDir()} {
		if err := wantLogged(healthOf(s.own, "/readyz"), want); err != nil {
			return fmt.Errorf("the second driver: %w", err)
		}
	}
	body, err := s.own.Fetch("/statusz")
	if err != nil {
		return err
	}
	var report statusz.Report
	if err := json.Unmarshal([]byte(body), &report); err != nil {
		return fmt.Errorf("/statusz of the second driver: %w", err)
	}
	if w := report.WaitsFor; w == nil || w.PID != holder || w.Name != name || w.Node != "test-node" || w.Since.IsZero() {
		return fmt.Errorf("/statusz of the second driver says that it waits for %+v, want process %d of %s", w, holder, name)
	}
	return s.saysItWaits(holder)
}

// saysItWaits returns an error unless the log has for whom the driver waits.
func (s *second) saysItWaits(holder int) error {
	log, err := os.ReadFile(s.log)
	for _, want := range []string{"Waiting for the end of another driver", "process " + strconv.Itoa(holder)} {
		if !strings.Contains(string(log), want) {
			return fmt.Errorf("the log of the second driver does not say %q, %w:\n%s", want, err, log)
		}
	}
	return s.Err()
}

func (s *second) wantWaiting(holder int) {
	s.b.T.Helper()
	expect.Eventually(s.b.T, fixture.Soon, func() error { return s.waits(holder) })
}

// wantServing waits until the driver at the node's sockets answers that it is ready.
func wantServing(b *fixture.Fixture) {
	b.T.Helper()
	ctx, cancel := context.WithTimeout(b.T.Context(), fixture.Soon)
	defer cancel()
	answer, err := b.Node.Identity().Probe(ctx, &csi.ProbeRequest{}, grpc.WaitForReady(true))
	// A call may have gone to the first driver while that was ending.
	for status.Code(err) == codes.Unavailable || err == nil && !answer.GetReady().GetValue() {
		answer, err = b.Node.Identity().Probe(ctx, &csi.ProbeRequest{}, grpc.WaitForReady(true))
	}
	if err != nil {
		b.T.Fatalf("the second driver does not serve: %v", err)
	}
}

// TestASecondDriverWaits (faults 5 and 22): two installations, or a new pod beside a process that outlived its own, are two
// drivers of one node. The second one touches nothing and reports for whom it waits, while the first goes on; when that is
// killed the second serves at once, with every volume.
func TestASecondDriverWaits(t *testing.T) {
	t.Parallel()
	const volumes, edits = 12, 200
	dir := registrationDir(t)
	b := fixture.Without(t, "--registration-dir="+dir)
	pods := make([]*corev1.Pod, volumes)
	files := make([]string, volumes)
	for i := range pods {
		name := fmt.Sprint("web-", i)
		b.CreateConfigMap(name, numbered(0))
		pods[i] = b.Pod(name, map[string]string{"configMap": name})
		b.Publish(pods[i])
		files[i] = b.Path(pods[i], "key-0")
	}
	wantRegistered(b, dir)
	sockets := []string{b.Node.Socket(), registrationSocket(dir)}
	before := []os.FileInfo{fileOf(sockets[0]), fileOf(sockets[1])}

	s := startSecond(b, fixture.FreeAddress(t))
	s.wantWaiting(b.Node.PID())
	defer startReading(t, files...)()
	for n := 1; n <= edits; n++ {
		b.UpdateConfigMap(fmt.Sprint("web-", n%volumes), numbered(n))
		b.WantFile(pods[n%volumes], "key-0", strconv.Itoa(n))
	}
	s.wantWaiting(b.Node.PID())
	for i, socket := range sockets {
		if now := fileOf(socket); now == nil || !os.SameFile(before[i], now) {
			t.Errorf("the second driver has replaced %s", socket)
		}
	}
	b.Kill()
	wantServing(b)
	wantRegistered(b, dir)
	for i, pod := range pods {
		b.UpdateConfigMap(fmt.Sprint("web-", i), numbered(edits+1))
		b.WantFile(pod, "key-0", strconv.Itoa(edits+1))
		if err := b.TryPublish(t.Context(), pod); err != nil {
			t.Errorf("a repeat at the second driver: %v", err)
		}
	}
	b.WantMounts(volumes, "with the second driver")

	if err := s.Stop(fixture.Soon); err != nil {
		t.Error(err)
	}
	b.Start()
}

// registrationDir returns a directory for registrations, whose path is short enough for sockets.
func registrationDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "lc-reg-") //nolint:usetesting // As above.
	expect.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// TestASecondDriverOnTheHostsNetwork (fault 22) can serve no HTTP while the first one has the port. It waits all the same, and
// serves when the first one has ended. One that is stopped while it waits has made no mistake.
func TestASecondDriverOnTheHostsNetwork(t *testing.T) {
	t.Parallel()
	b := fixture.Without(t)
	pod := publish(b, "web", "1")
	s, stopped := startSecond(b, b.HTTP), startSecond(b, b.HTTP)
	for _, s := range []*second{s, stopped} {
		expect.Eventually(t, fixture.Soon, func() error { return s.saysItWaits(b.Node.PID()) })
	}
	if err := stopped.Stop(fixture.Soon); err != nil {
		t.Errorf("the end of a driver that waited: %v", err)
	}
	b.Kill()
	wantServing(b)
	b.WantNumber("liveconfig_recovered_volumes", 1)
	b.UpdateConfigMap("web", map[string]string{"n": "2"})
	b.WantFile(pod, "n", "2")
	if err := s.Stop(fixture.Soon); err != nil {
		t.Error(err)
	}
	b.Start()
}

// TestADriverThatLosesItsNodeEnds (faults 20 and 22): somebody puts another state directory in the place of the first one, and
// another driver has it before the first one looks. The first one ends, and waits when it is started again.
func TestADriverThatLosesItsNodeEnds(t *testing.T) {
	t.Parallel()
	b := fixture.Without(t)
	release := replaceState(b)
	expect.Eventually(t, 2*fixture.Soon, func() error { // It looks every ten seconds.
		if b.Node.Alive() == nil {
			return errors.New("the first driver has not ended")
		}
		return nil
	})
	expect.NoError(t, (&rig{b}).logged("since then another driver has the state directory: "))
	release()
	b.Start()
}

// replaceState puts another state directory in place, in one step, with records that are locked until the returned function
// is called.
func replaceState(b *fixture.Fixture) (release func()) {
	b.T.Helper()
	other := b.Node.StateDir() + ".other"
	records := filepath.Join(other, "volumes")
	err := os.MkdirAll(records, 0o700)
	fd := -1
	if err == nil {
		fd, err = unix.Open(records, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	}
	if err == nil {
		err = unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB)
	}
	if err == nil {
		err = unix.Renameat2(unix.AT_FDCWD, other, unix.AT_FDCWD, b.Node.StateDir(), unix.RENAME_EXCHANGE)
	}
	expect.NoError(b.T, err)
	return func() {
		if err := unix.Close(fd); err != nil {
			b.T.Error(err)
		}
	}
}

// numbered is the content of a source after an edit. It has several files, so that one is written for a while.
func numbered(n int) map[string]string {
	data := map[string]string{}
	for i := range 20 {
		data[fmt.Sprint("key-", i)] = strconv.Itoa(n)
	}
	return data
}

// wantRegistered waits until a kubelet that looks into the directory would learn of the driver and its socket. It makes the
// kubelet's call without knowing the message, in which both are text.
func wantRegistered(b *fixture.Fixture, dir string) {
	b.T.Helper()
	conn, err := grpc.NewClient("unix://"+registrationSocket(dir), grpc.WithTransportCredentials(insecure.NewCredentials()))
	expect.NoError(b.T, err)
	defer conn.Close()
	expect.Eventually(b.T, fixture.Soon, func() error {
		var info emptypb.Empty
		if err := conn.Invoke(b.T.Context(), "/pluginregistration.Registration/GetInfo", &emptypb.Empty{}, &info); err != nil {
			return err
		}
		said := info.ProtoReflect().GetUnknown()
		if !bytes.Contains(said, []byte(node.DriverName)) || !bytes.Contains(said, []byte(b.Node.Socket())) {
			return fmt.Errorf("the registration says %q", said)
		}
		return nil
	})
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
	expect.NoError(t, b.TryPublish(t.Context(), pod))
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
