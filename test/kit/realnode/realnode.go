// Package realnode boots a whole Kubernetes node for tests: containerd, runc and a kubelet in separate namespaces, and
// beside them etcd, the API server, the controller manager and the scheduler. Everything is real, and everything is gone
// when the test program ends, whatever the way: mounts, networks, processes and control groups.
//
// It needs root, because a kubelet does. It does not know what runs in the pods, nor how liveconfig is installed.
package realnode

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"

	"github.com/liveconfig-csi/liveconfig/test/kit/cluster"
	"github.com/liveconfig-csi/liveconfig/test/kit/network"
	"github.com/liveconfig-csi/liveconfig/test/kit/process"
	"github.com/liveconfig-csi/liveconfig/test/kit/workdir"
)

// NodeName is the name of the one node.
const NodeName = "node"

// prefix starts the names of working directories, and of control groups.
const prefix = "lc-machine-"

// Config says what a machine is made of.
type Config struct {
	// Runtime is the container runtime. It is required.
	Runtime Runtime
	// Repo is the root of the checkout, where `make` has built the programs.
	Repo string
	// LogDir receives the logs of all programs and pods, which stay there after [Node.Stop].
	LogDir string
	// Output gets one line for each program that starts, with the time that it took. Nil discards them.
	Output io.Writer
	// Box is the program of the images, built from the package box. Empty: Start builds it.
	Box string
}

// Node is a running node with its control plane. Its methods may be called by many goroutines, but only one at a time
// starts or stops something.
type Node struct {
	*cluster.Cluster

	cfg     Config
	dir     *workdir.Dir
	cgroups cgroups
	link    *network.Link

	mu                 sync.Mutex // Guards the processes.
	init               *process.Process
	containerd         *process.Process // Nil while the runtime is stopped.
	kubelet            *process.Process // Nil while the kubelet is stopped.
	manager, scheduler *process.Process
	taints             []corev1.Taint // Of a node that the API server does not know yet.
}

// Start returns when the node is ready for pods. The context bounds the start only. The test program must have been
// started by [Main]. The caller must call [Node.Stop]; when Start fails, nothing is left behind but the logs.
func Start(ctx context.Context, cfg Config) (_ *Node, err error) {
	if cfg.Output == nil {
		cfg.Output = io.Discard
	}
	begin := time.Now()
	m := &Node{cfg: cfg}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("start a node (logs: %s): %w", cfg.LogDir, err), m.Stop())
		}
	}()
	if err := m.prepare(); err != nil {
		return nil, err
	}
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() error { return m.startControlPlane(groupCtx) })
	group.Go(func() error { return m.bootRuntime(groupCtx) })
	if err := group.Wait(); err != nil {
		return nil, err
	}
	if err := m.StartKubelet(ctx); err != nil {
		return nil, err
	}
	m.say("the node is ready after %s, with %s", time.Since(begin).Round(time.Millisecond), cfg.Runtime.Name)
	return m, nil
}

// prepare does everything that needs no running process.
func (m *Node) prepare() error {
	if err := m.cfg.check(); err != nil {
		return err
	}
	if err := os.RemoveAll(m.cfg.LogDir); err != nil {
		return fmt.Errorf("clear the logs of an earlier run: %w", err)
	}
	if err := os.MkdirAll(m.podLogs(), 0o755); err != nil {
		return fmt.Errorf("make the folder of the logs: %w", err)
	}
	dir, err := workdir.New(prefix)
	if err != nil {
		return err
	}
	m.dir = dir
	// The root of a pod with a user namespace is nobody here, and its files lie below.
	for path, mode := range map[string]os.FileMode{
		"": 0o711, "containerd": 0o711, "kubelet": 0o750, "sysctl": 0o700, "cni": 0o755,
	} {
		if err := os.MkdirAll(m.path(path), mode); err != nil {
			return fmt.Errorf("make the node's directories: %w", err)
		}
		if err := os.Chmod(m.path(path), mode); err != nil {
			return fmt.Errorf("open the node's directories: %w", err)
		}
	}
	if err := os.Symlink(m.podLogs(), m.path("logs")); err != nil {
		return err
	}
	if m.cgroups, err = newCgroups(); err != nil {
		return err
	}
	return m.writeRuntimeFiles()
}

// check says what is missing, and what to type.
func (cfg Config) check() error {
	for what, path := range map[string]string{"the directory for temporary files (TMPDIR)": os.TempDir(), "the checkout": cfg.Repo} {
		for _, taken := range []string{"/run", "/var/log", "/var/run"} {
			if strings.HasPrefix(path+"/", taken+"/") {
				return fmt.Errorf("%s is %s, and the node has a %s of its own: use another place", what, path, taken)
			}
		}
	}
	if strings.HasPrefix(os.TempDir()+"/", "/var/lib/") {
		return fmt.Errorf("the directory for temporary files is %s, and the node has a /var/lib of its own: set TMPDIR", os.TempDir())
	}
	for _, path := range append(cfg.Runtime.programs(cfg.Repo), cfg.controlPlane()...) {
		if _, err := os.Stat(path); err != nil {
			return fmt.Errorf("find the node's programs (run `make bin/node` to get them): %w", err)
		}
	}
	return nil
}

func (cfg Config) k8s(program string) string {
	return filepath.Join(cluster.Programs(cfg.Repo), program)
}

func (cfg Config) controlPlane() []string {
	return []string{cfg.k8s("kubelet"), cfg.k8s("kube-controller-manager"), cfg.k8s("kube-scheduler")}
}

// Link is how pods reach the API server. The kubelet and the tests do not use it.
func (m *Node) Link() *network.Link { return m.link }

// LogDir is where all logs are.
func (m *Node) LogDir() string { return m.cfg.LogDir }

// Name is a name that no other machine has: that of its control groups.
func (m *Node) Name() string { return m.cgroups.name() }

// Stop ends everything at once and removes what it kept, except the logs. A second Stop does nothing.
func (m *Node) Stop() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	var errs []error
	for _, p := range []**process.Process{&m.manager, &m.scheduler, &m.kubelet, &m.containerd, &m.init} {
		errs = append(errs, kill(p))
	}
	if m.link != nil {
		errs = append(errs, m.link.Close())
		m.link = nil
	}
	if m.Cluster != nil {
		errs = append(errs, m.Cluster.Stop())
	}
	errs = append(errs, m.cgroups.remove())
	if m.dir != nil {
		errs = append(errs, m.dir.Remove())
	}
	return errors.Join(errs...)
}

// kill ends a process by SIGKILL, unless that was done.
func kill(p **process.Process) error {
	if *p == nil {
		return nil
	}
	err := (*p).Kill()
	*p = nil
	return err
}

func (m *Node) path(elem ...string) string {
	return filepath.Join(append([]string{m.dir.Path()}, elem...)...)
}

func (m *Node) log(program string) string { return filepath.Join(m.cfg.LogDir, program+".log") }

func (m *Node) podLogs() string { return filepath.Join(m.cfg.LogDir, "var-log") }

// say reports progress. A broken output does not break the machine.
func (m *Node) say(format string, args ...any) {
	_, _ = fmt.Fprintf(m.cfg.Output, format+"\n", args...)
}
