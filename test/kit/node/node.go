// Package node runs the driver as a separate process, the way a node runs it, and can kill and restart it.
//
// It does not know what the driver does, and uses nothing but its flags and sockets.
package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"

	"github.com/liveconfig-csi/liveconfig/test/kit/fakekubelet"
	"github.com/liveconfig-csi/liveconfig/test/kit/process"
)

// DriverName is the name the driver runs under.
const DriverName = "csi.liveconfig.internal"

// Volume is a pod's volume of the driver.
func Volume(name string, attributes map[string]string) corev1.Volume {
	source := &corev1.CSIVolumeSource{Driver: DriverName, ReadOnly: new(true), VolumeAttributes: attributes}
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{CSI: source}}
}

// How long a driver may take to be ready, and to stop. Beside a node with a hundred pods, each with separate mounts, the
// kernel takes many seconds to take down a mount or the process that has it open.
const (
	readyTimeout = 30 * time.Second
	stopTimeout  = time.Minute
)

// errNotReady is why a driver that answers is still waited for.
var errNotReady = errors.New("it answers that it is not ready")

// Config describes a node. Binary, Dir and one of Kubeconfig and Manifests are required.
type Config struct {
	// Binary is the driver's program.
	Binary string
	// Kubeconfig holds the driver's credentials.
	Kubeconfig string
	// Manifests is a directory of manifests, for a driver without an API server.
	Manifests string
	// Dir holds everything of the node: the kubelet's directory, the driver's records, sockets and log. Sockets limit
	// its length to about 70 bytes.
	Dir string
	// Disk is where the kubelet's directory leads, if it is a link.
	Disk string
	// Args are further flags of the driver.
	Args []string
	// Launcher is a command that ends in replacing itself by the command it is given, if the driver is started by one.
	Launcher []string
}

// Node is one driver process and the kubelet that calls it.
type Node struct {
	*fakekubelet.Kubelet

	cfg    Config
	driver *process.Process
}

// Start starts the driver and waits until it is ready. The caller must call [Node.Stop].
func Start(ctx context.Context, cfg Config) (*Node, error) {
	n := &Node{cfg: cfg}
	if cfg.Disk != "" {
		if err := os.Symlink(cfg.Disk, n.KubeletDir()); err != nil {
			return nil, fmt.Errorf("make the kubelet's directory a link: %w", err)
		}
	}
	for _, dir := range []string{n.KubeletDir(), n.StateDir()} {
		if err := os.MkdirAll(dir, 0o750); err != nil {
			return nil, fmt.Errorf("make the node's directories: %w", err)
		}
	}
	k, err := fakekubelet.New(n.KubeletDir(), DriverName, n.Socket())
	if err != nil {
		return nil, err
	}
	n.Kubelet = k
	return n, n.StartDriver(ctx)
}

// KubeletDir is the kubelet's root directory.
func (n *Node) KubeletDir() string { return filepath.Join(n.cfg.Dir, "kubelet") }

// StateDir is where the driver keeps its records.
func (n *Node) StateDir() string { return filepath.Join(n.cfg.Dir, "state") }

// Socket is the driver's CSI socket.
func (n *Node) Socket() string { return filepath.Join(n.cfg.Dir, "csi.sock") }

// LogFile is what the driver wrote, over all its runs.
func (n *Node) LogFile() string { return filepath.Join(n.cfg.Dir, "driver.log") }

// Alive returns an error when the driver has ended, which says how.
func (n *Node) Alive() error { return n.driver.Err() }

// PID returns the driver's process ID.
func (n *Node) PID() int { return n.driver.PID() }

// StartDriver starts a driver that was stopped or killed, with further flags if wanted, and waits until it is ready.
func (n *Node) StartDriver(ctx context.Context, args ...string) error {
	origin := "--kubeconfig=" + n.cfg.Kubeconfig
	if n.cfg.Manifests != "" {
		origin = "--manifests=" + n.cfg.Manifests
	}
	flags := append([]string{
		"--endpoint=unix://" + n.Socket(), "--node-id=test-node", "--driver-name=" + DriverName,
		origin, "--state-dir=" + n.StateDir(), "--kubelet-dir=" + n.KubeletDir(),
	}, n.cfg.Args...)
	command := slices.Concat(n.cfg.Launcher, []string{n.cfg.Binary}, flags, args)
	driver, err := process.Start(context.WithoutCancel(ctx), process.Config{
		Path: command[0], Args: command[1:], LogFile: n.LogFile(),
	})
	if err != nil {
		return err
	}
	n.driver = driver
	return n.awaitReady(ctx, driver)
}

func (n *Node) awaitReady(ctx context.Context, driver *process.Process) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	go func() {
		select {
		case <-driver.Done():
			cancel()
		case <-ctx.Done():
		}
	}()
	for {
		response, err := n.Identity().Probe(ctx, &csi.ProbeRequest{}, grpc.WaitForReady(true))
		if err == nil && response.GetReady().GetValue() {
			return nil
		}
		if ended := driver.Err(); ended != nil {
			return ended
		}
		if ctx.Err() != nil {
			err = cmp.Or(err, errNotReady)
			return fmt.Errorf("wait for the driver: %w; its log ends with:\n%s", err, process.Tail(n.LogFile(), 4096))
		}
	}
}

// Kill ends the driver with SIGKILL.
func (n *Node) Kill() error { return n.driver.Kill() }

// StopDriver ends the driver with SIGTERM and waits for it.
func (n *Node) StopDriver() error { return n.driver.Stop(stopTimeout) }

// Stop ends the driver and hangs up.
func (n *Node) Stop() error {
	if err := n.StopDriver(); err != nil {
		return err
	}
	return n.Close()
}
