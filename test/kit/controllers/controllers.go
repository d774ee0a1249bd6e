// Package controllers runs Kubernetes' own controllers beside a cluster of test/kit/cluster: the controller manager, and the
// scheduler if it is asked for. Deployments make ReplicaSets and those make pods, what has lost its owner is collected, and
// namespaces are emptied when they are deleted.
//
// It does not know what becomes of the pods: something else has to run them, or to pretend so.
package controllers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/liveconfig-csi/liveconfig/test/kit/cluster"
	"github.com/liveconfig-csi/liveconfig/test/kit/process"
	"github.com/liveconfig-csi/liveconfig/test/kit/workdir"
)

// The programs, which are also what their users and logs are named after.
const (
	managerProgram   = "kube-controller-manager"
	schedulerProgram = "kube-scheduler"
)

const (
	// readyTimeout is several times what a start takes on a busy machine with two cores.
	readyTimeout = 2 * time.Minute
	// readyInterval is short because a test waits for it.
	readyInterval = 50 * time.Millisecond
)

// Config says which controllers run. Only the cluster is required.
type Config struct {
	// Cluster is what they work for. It must run, and outlive them.
	Cluster *cluster.Cluster
	// BinDir holds the programs. Empty means where the cluster's own came from.
	BinDir string
	// LogDir receives kube-controller-manager.log and kube-scheduler.log, which stay there. Empty means that they are
	// removed with everything else.
	LogDir string
	// Args are flags appended to the controller manager's own, which they override.
	Args []string
	// Scheduler says that pods are to be scheduled.
	Scheduler bool
}

// Unthrottled are flags for [Config.Args] that let each controller ask as much as it can. By default it is 20 requests a
// second, and a test of some hundred workloads would wait for nothing else.
func Unthrottled() []string {
	return []string{
		"--kube-api-qps=2000", "--kube-api-burst=4000",
		"--concurrent-deployment-syncs=20", "--concurrent-replicaset-syncs=20",
		"--concurrent-statefulset-syncs=20", "--concurrent-daemonset-syncs=20",
	}
}

// Controllers are running programs. Their methods may be called by many goroutines.
type Controllers struct {
	cfg Config
	dir *workdir.Dir

	mu        sync.Mutex // Guards the processes, and is held while they start and end.
	manager   *process.Process
	scheduler *process.Process // Nil unless it is wanted; both are nil after a Kill.
}

// Start starts the programs. It does not wait until they work, as [Controllers.AwaitReady] does. They run until
// [Controllers.Stop], which the caller must call, or until this process dies. When Start fails, nothing is left behind but
// the logs.
func Start(ctx context.Context, cfg Config) (_ *Controllers, err error) {
	if cfg, err = cfg.complete(); err != nil {
		return nil, err
	}
	dir, err := workdir.New("liveconfig-controllers-")
	if err != nil {
		return nil, err
	}
	c := &Controllers{cfg: cfg, dir: dir}
	if c.cfg.LogDir == "" {
		c.cfg.LogDir = dir.Path()
	}
	if err := c.Restart(ctx); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

// complete finds the programs.
func (cfg Config) complete() (Config, error) {
	if cfg.BinDir == "" {
		apiServer, _ := cfg.Cluster.Processes()
		program, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", apiServer))
		if err != nil {
			return cfg, fmt.Errorf("find the cluster's programs: %w", err)
		}
		cfg.BinDir = filepath.Dir(program)
	}
	for _, program := range cfg.programs() {
		if _, err := os.Stat(filepath.Join(cfg.BinDir, program)); err != nil {
			return cfg, fmt.Errorf("find the controllers' programs (run `make bin/node` to build them): %w", err)
		}
	}
	return cfg, nil
}

func (cfg Config) programs() []string {
	if cfg.Scheduler {
		return []string{managerProgram, schedulerProgram}
	}
	return []string{managerProgram}
}

// Restart kills what runs and starts all programs, as after a crash of the machine that they were on.
func (c *Controllers) Restart(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.kill(); err != nil {
		return err
	}
	known := c.cfg.Cluster
	var err error
	c.manager, err = c.start(ctx, managerProgram, append([]string{
		"--root-ca-file=" + known.CAFile(), "--service-account-private-key-file=" + known.TokenKeyFile(),
		"--use-service-account-credentials",
	}, c.cfg.Args...))
	if err != nil || !c.cfg.Scheduler {
		return err
	}
	c.scheduler, err = c.start(ctx, schedulerProgram, nil)
	return err
}

// start starts a program that does its work through the API server.
func (c *Controllers) start(ctx context.Context, program string, args []string) (*process.Process, error) {
	kubeconfig := c.path(program + ".kubeconfig")
	if err := c.cfg.Cluster.WriteUserKubeconfig(kubeconfig, "system:"+program); err != nil {
		return nil, err
	}
	common := []string{
		"--kubeconfig=" + kubeconfig, "--leader-elect=false", "--secure-port=0", "--cert-dir=" + c.path(program),
	}
	return process.Start(context.WithoutCancel(ctx), process.Config{
		Path: filepath.Join(c.cfg.BinDir, program), Args: append(common, args...), LogFile: c.logPath(program),
	})
}

// AwaitReady returns when the controller manager has been seen to do something since: the certificate that it puts into
// every namespace is taken out of one and comes back. It fails at once when a program has ended.
func (c *Controllers) AwaitReady(ctx context.Context) error {
	const probe = "kube-root-ca.crt"
	maps := c.cfg.Cluster.Client().CoreV1().ConfigMaps(metav1.NamespaceDefault)
	if err := maps.Delete(ctx, probe, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("take away what the controller manager puts back: %w", err)
	}
	var last error
	err := wait.PollUntilContextTimeout(ctx, readyInterval, readyTimeout, true, func(ctx context.Context) (bool, error) {
		if err := c.Err(); err != nil {
			return false, err
		}
		_, last = maps.Get(ctx, probe, metav1.GetOptions{})
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("wait for the controller manager: %w", errors.Join(err, last))
	}
	return nil
}

// Err is nil while the programs run, and else says which has ended, how, and with which last words. After a Kill it is nil.
func (c *Controllers) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var errs []error
	for _, p := range []*process.Process{c.manager, c.scheduler} {
		if p != nil {
			errs = append(errs, p.Err())
		}
	}
	return errors.Join(errs...)
}

// Kill ends the programs by SIGKILL. [Controllers.Restart] has them run again. A second Kill does nothing.
func (c *Controllers) Kill() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.kill()
}

func (c *Controllers) kill() error {
	var errs []error
	for _, p := range []*process.Process{c.manager, c.scheduler} {
		if p != nil {
			errs = append(errs, p.Kill())
		}
	}
	c.manager, c.scheduler = nil, nil
	return errors.Join(errs...)
}

// Stop ends the programs at once and removes what they kept, except the logs in [Config.LogDir]. A second Stop does nothing.
func (c *Controllers) Stop() error { return errors.Join(c.Kill(), c.dir.Remove()) }

func (c *Controllers) path(name string) string { return filepath.Join(c.dir.Path(), name) }

func (c *Controllers) logPath(program string) string {
	return filepath.Join(c.cfg.LogDir, program+".log")
}
