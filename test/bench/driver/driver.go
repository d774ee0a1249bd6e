// Package driver runs the driver as a process of the benchmark's, as it is shipped, beside the one in a container that the
// kubelet calls: for what only a separate caller can measure.
//
// It does not know what is measured.
package driver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/liveconfig-csi/liveconfig/test/bench/metrics"
	"github.com/liveconfig-csi/liveconfig/test/bench/site"
	"github.com/liveconfig-csi/liveconfig/test/kit/cluster"
	"github.com/liveconfig-csi/liveconfig/test/kit/network"
	"github.com/liveconfig-csi/liveconfig/test/kit/node"
)

// The driver's service account, as the README installs it.
const (
	namespace = "liveconfig-system"
	account   = "liveconfig-driver"
)

// User is whom the API server takes drivers for.
func User() string { return cluster.ServiceAccountUser(namespace, account) }

// Driver is a driver process. Its embedded node calls it as a kubelet would.
type Driver struct {
	*node.Node

	dir  string
	http string
}

// Start builds the driver, unless that was done on this site, and returns when it is ready. It has the rights that the README
// gives it. The caller must call [Driver.Close].
func Start(ctx context.Context, s *site.Site) (*Driver, error) {
	return start(ctx, s, shipped(), func(path string) error {
		return s.WriteServiceAccountKubeconfig(ctx, path, namespace, account)
	})
}

// StartAs is [Start] with a driver that the API server takes for a separate user, who may do everything.
func StartAs(ctx context.Context, s *site.Site, user string) (*Driver, error) {
	return start(ctx, s, shipped(), func(path string) error { return s.WriteUserKubeconfig(path, user, "system:masters") })
}

// StartOver is [Start] with a driver that reaches the API server over a link.
func StartOver(ctx context.Context, s *site.Site, link *network.Link) (*Driver, error) {
	return start(ctx, s, shipped(), func(path string) error {
		if err := s.WriteServiceAccountKubeconfig(ctx, path, namespace, account); err != nil {
			return err
		}
		return link.Kubeconfig(path, path)
	})
}

// program is how a driver is built and started.
type program struct {
	name                 string
	buildFlags, launcher []string
}

func shipped() program { return program{name: "liveconfig-driver"} }

func start(ctx context.Context, s *site.Site, p program, writeKubeconfig func(path string) error) (*Driver, error) {
	binary := filepath.Join(s.Dir(), p.name)
	if err := build(ctx, s.Repo(), binary, p.buildFlags...); err != nil {
		return nil, err
	}
	d := &Driver{dir: filepath.Join(s.Dir(), rand.String(4))}
	if err := d.makeDirs(); err != nil {
		return nil, err
	}
	kubeconfig := filepath.Join(d.dir, "driver.kubeconfig")
	if err := writeKubeconfig(kubeconfig); err != nil {
		return nil, err
	}
	var err error
	if d.http, err = freeAddress(ctx); err != nil {
		return nil, err
	}
	d.Node, err = node.Start(ctx, node.Config{
		Binary: binary, Kubeconfig: kubeconfig, Dir: d.dir, Args: []string{"--http-endpoint=" + d.http}, Launcher: p.launcher,
	})
	return d, err
}

// Files returns how much the file system of a pod's first volume has in memory.
func (d *Driver) Files(pod *corev1.Pod) (int64, error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(d.Target(pod, pod.Spec.Volumes[0].Name), &fs); err != nil {
		return 0, fmt.Errorf("look at a volume: %w", err)
	}
	return int64(fs.Blocks-fs.Bfree) * fs.Bsize, nil //nolint:gosec // A volume is small.
}

// makeDirs makes the driver's directories. Its records are in memory, as they are on a node. All that is mounted is below one
// mount, and can go with it.
func (d *Driver) makeDirs() error {
	if err := os.MkdirAll(d.stateDir(), 0o750); err != nil {
		return err
	}
	if err := unix.Mount(d.dir, d.dir, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("mount the driver's directory: %w", err)
	}
	if err := unix.Mount("state", d.stateDir(), "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "mode=0750"); err != nil {
		return fmt.Errorf("mount a directory for the driver's records: %w", err)
	}
	return nil
}

// stateDir is where the node kit has the driver's records.
func (d *Driver) stateDir() string { return filepath.Join(d.dir, "state") }

// build builds the driver as `make build` does.
func build(ctx context.Context, repo, path string, flags ...string) error {
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	args := slices.Concat([]string{"build", "-trimpath", "-ldflags=-s -w", "-o", path}, flags, []string{"./cmd/liveconfig-driver"})
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Env = repo, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the driver: %w\n%s", err, out)
	}
	return nil
}

// freeAddress returns a loopback address that nobody listens on right now.
func freeAddress(ctx context.Context) (string, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// Close ends the driver and removes its directory, with whatever volumes there are: to unpublish many takes its time.
func (d *Driver) Close() error {
	return errors.Join(d.Stop(), unix.Unmount(d.dir, unix.MNT_DETACH), os.RemoveAll(d.dir))
}

// Dir is a directory that is gone with the driver, on the file system of its targets.
func (d *Driver) Dir() string { return d.dir }

// Metric returns the sum of a metric's series that have the labels, as [metrics.Sum] does.
func (d *Driver) Metric(ctx context.Context, name string, labels ...string) (float64, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+d.http+"/metrics", http.NoBody)
	if err != nil {
		return 0, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err
	}
	return metrics.Sum(string(text), name, labels...)
}

// Pod returns a pod, which the API server need not know, with one volume of a ConfigMap.
func Pod(namespace, configMap string) *corev1.Pod {
	return PodWith(namespace, map[string]string{"configMap": configMap})
}

// PodWith returns a pod, which the API server need not know, with one volume.
func PodWith(namespace string, attributes map[string]string) *corev1.Pod {
	uid := uuid.NewUUID()
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "pod-" + string(uid), UID: uid},
		Spec:       corev1.PodSpec{Volumes: []corev1.Volume{node.Volume("config", attributes)}},
	}
}
