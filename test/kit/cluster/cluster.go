// Package cluster starts a real Kubernetes API for tests and demonstrations: etcd and kube-apiserver on loopback, with
// RBAC, service-account tokens and an audit log, built from source by `make bin/k8s`.
//
// It does not know liveconfig. No controller manager, scheduler or kubelet runs: namespaces are not emptied when they
// are deleted, the cluster roles view, edit and admin have no rules, no controller makes pods, and pods are never
// scheduled.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/liveconfig-csi/liveconfig/test/kit/port"
	"github.com/liveconfig-csi/liveconfig/test/kit/process"
	"github.com/liveconfig-csi/liveconfig/test/kit/workdir"
)

// Config says where a cluster finds its programs and where it leaves its traces. The zero value works inside a
// checkout.
type Config struct {
	// BinDir holds etcd, kube-apiserver and kubectl. Empty means [Programs] of the checkout around the working directory.
	BinDir string
	// LogDir receives etcd.log, kube-apiserver.log and audit.log, which stay there after [Cluster.Stop]. Empty means
	// that they are removed with everything else. Two clusters cannot share one.
	LogDir string
	// Output gets one line for each program that starts, with the time that it took. Nil discards them.
	Output io.Writer
	// APIServerArgs are flags appended to the API server's own, which they override.
	APIServerArgs []string
}

// Cluster is a running API server and its etcd. Its methods may be called by many goroutines.
type Cluster struct {
	cfg  Config
	dir  *workdir.Dir
	ca   *authority
	port *port.Port

	admin  *rest.Config
	client kubernetes.Interface
	audit  audit

	// mu guards the processes and is held while they start and stop.
	mu        sync.Mutex
	etcd      *process.Process
	apiServer *process.Process // Nil while the API server is stopped.
}

// Start returns when the API server is ready, has its bootstrap RBAC roles and a default namespace with a default
// service account. The context bounds the start only; the cluster then runs until [Cluster.Stop] or until this process
// dies, whichever comes first. When Start fails, nothing is left behind.
func Start(ctx context.Context, cfg Config) (_ *Cluster, err error) {
	if cfg, err = cfg.complete(); err != nil {
		return nil, err
	}
	dir, err := workdir.New("liveconfig-cluster-")
	if err != nil {
		return nil, err
	}
	c := &Cluster{cfg: cfg, dir: dir}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Stop())
		}
	}()
	if err := c.prepare(); err != nil {
		return nil, err
	}
	if err := c.startEtcd(ctx); err != nil {
		return nil, err
	}
	if err := c.StartAPIServer(ctx); err != nil {
		return nil, err
	}
	if err := c.EnsureServiceAccount(ctx, "default", "default"); err != nil {
		return nil, err
	}
	return c, nil
}

// complete fills in the defaults and checks that the programs are there.
func (cfg Config) complete() (Config, error) {
	if cfg.Output == nil {
		cfg.Output = io.Discard
	}
	if cfg.BinDir == "" {
		repo, err := Checkout()
		if err != nil {
			return cfg, fmt.Errorf("BinDir is not set: %w", err)
		}
		cfg.BinDir = Programs(repo)
	}
	// The children run in other directories than ours.
	binDir, err := filepath.Abs(cfg.BinDir)
	if err != nil {
		return cfg, fmt.Errorf("resolve %s: %w", cfg.BinDir, err)
	}
	cfg.BinDir = binDir
	for _, name := range []string{"etcd", "kube-apiserver", "kubectl"} {
		if _, err := os.Stat(filepath.Join(binDir, name)); err != nil {
			return cfg, fmt.Errorf("find the cluster's programs (run `make bin/k8s` to build them): %w", err)
		}
	}
	return cfg, nil
}

// Programs returns where a checkout has the programs of Kubernetes: those of the version that tests are written for or, if
// LIVECONFIG_KUBERNETES is set, of that version, such as 1.35.
func Programs(repo string) string {
	if minor := os.Getenv("LIVECONFIG_KUBERNETES"); minor != "" {
		return filepath.Join(repo, "bin", "kubernetes", minor)
	}
	return filepath.Join(repo, "bin", "k8s")
}

// Checkout returns the root of the checkout: the working directory or one above it, since tests run in their package's folder.
func Checkout() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the checkout: %w", err)
	}
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "cmd", "liveconfig-driver")); err == nil {
			return dir, nil
		}
	}
	return "", errors.New("the program does not run inside a checkout of liveconfig")
}

// prepare does everything that needs no running process.
func (c *Cluster) prepare() error {
	if c.cfg.LogDir == "" {
		c.cfg.LogDir = c.path("log")
	}
	if err := c.freshLogs(); err != nil {
		return err
	}
	var err error
	if c.port, err = port.OfLoopback(); err != nil {
		return err
	}
	if err := c.writeServerFiles(time.Now()); err != nil {
		return err
	}
	if c.client, err = kubernetes.NewForConfig(c.admin); err != nil {
		return fmt.Errorf("make the admin's client: %w", err)
	}
	return c.WriteAdminKubeconfig(c.path("admin.kubeconfig"))
}

// freshLogs makes the folder of the logs and clears it of an earlier cluster's.
func (c *Cluster) freshLogs() error {
	dir, err := filepath.Abs(c.cfg.LogDir)
	if err != nil {
		return fmt.Errorf("resolve %s: %w", c.cfg.LogDir, err)
	}
	c.cfg.LogDir = dir
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make the folder of the logs: %w", err)
	}
	for _, name := range []string{etcdLog, apiServerLog, auditLog} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("clear an earlier log: %w", err)
		}
	}
	return nil
}

// Stop ends the cluster and removes everything it kept, except the logs in [Config.LogDir]. Data is thrown away, so
// nothing is asked to end gracefully. A second Stop does nothing.
func (c *Cluster) Stop() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var errs []error
	for _, p := range []*process.Process{c.apiServer, c.etcd} {
		if p != nil {
			errs = append(errs, p.Kill())
		}
	}
	c.apiServer, c.etcd = nil, nil
	if c.port != nil {
		errs = append(errs, c.port.Release())
		c.port = nil
	}
	errs = append(errs, c.dir.Remove())
	return errors.Join(errs...)
}

func (c *Cluster) path(elem ...string) string {
	return filepath.Join(append([]string{c.dir.Path()}, elem...)...)
}

func (c *Cluster) logPath(name string) string { return filepath.Join(c.cfg.LogDir, name) }

// say reports progress. A broken output does not break the cluster.
func (c *Cluster) say(format string, args ...any) {
	_, _ = fmt.Fprintf(c.cfg.Output, format+"\n", args...)
}

// Processes returns the process IDs of the API server and of etcd, for measurements; zero for one that is stopped. A
// restarted API server has another.
func (c *Cluster) Processes() (apiServer, etcd int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.apiServer != nil {
		apiServer = c.apiServer.PID()
	}
	if c.etcd != nil {
		etcd = c.etcd.PID()
	}
	return apiServer, etcd
}
