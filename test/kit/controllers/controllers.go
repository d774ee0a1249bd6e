// Package controllers runs Kubernetes' own controller manager beside a cluster of test/kit/cluster. Deployments make ReplicaSets and those make pods, what has lost its owner is collected, and
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

	"github.com/liveconfig-csi/liveconfig/test/kit/cluster"
	"github.com/liveconfig-csi/liveconfig/test/kit/process"
	"github.com/liveconfig-csi/liveconfig/test/kit/workdir"
)

// The program, which is also what its user and its log are named after.
const program = "kube-controller-manager"

// readyTimeout is several times what a start takes on a busy machine with two cores.
const readyTimeout = 2 * time.Minute

// Config says which controllers run. Only the cluster is required.
type Config struct {
	// Cluster is what they work for. It must run, and outlive them. Their program is beside its own.
	Cluster *cluster.Cluster
	// Args are flags appended to the controller manager's own, which they override.
	Args []string
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

// Controllers are a running program. Their methods may be called by many goroutines.
type Controllers struct {
	cfg Config
	dir *workdir.Dir

	mu      sync.Mutex       // Guards manager, and is held while it starts and ends.
	manager *process.Process // Nil after a Stop.
}

// Start starts the program. It does not wait until it works, as [Controllers.AwaitReady] does. It runs until
// [Controllers.Stop], which the caller must call, or until this process dies. When Start fails, nothing is left behind.
func Start(ctx context.Context, cfg Config) (*Controllers, error) {
	apiServer, _ := cfg.Cluster.Processes()
	path, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", apiServer))
	if err != nil {
		return nil, fmt.Errorf("find the cluster's programs: %w", err)
	}
	dir, err := workdir.New("liveconfig-controllers-")
	if err != nil {
		return nil, err
	}
	c := &Controllers{cfg: cfg, dir: dir}
	if err := c.start(ctx, filepath.Join(filepath.Dir(path), program)); err != nil {
		return nil, errors.Join(fmt.Errorf("start the controllers (run `make bin/node` to build them): %w", err), c.Stop())
	}
	return c, nil
}

func (c *Controllers) start(ctx context.Context, path string) (err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	known, kubeconfig := c.cfg.Cluster, c.path(program+".kubeconfig")
	if err := known.WriteUserKubeconfig(kubeconfig, "system:"+program); err != nil {
		return err
	}
	args := append([]string{
		"--kubeconfig=" + kubeconfig, "--leader-elect=false", "--secure-port=0", "--cert-dir=" + c.path(program),
		"--root-ca-file=" + known.CAFile(), "--service-account-private-key-file=" + known.TokenKeyFile(),
		"--use-service-account-credentials",
	}, c.cfg.Args...)
	c.manager, err = process.Start(context.WithoutCancel(ctx), process.Config{
		Path: path, Args: args, LogFile: c.logPath(),
	})
	return err
}

// AwaitReady returns when the controller manager has been seen to do something since: the certificate that it puts into
// every namespace is taken out of one and comes back. It fails at once when the program has ended.
func (c *Controllers) AwaitReady(ctx context.Context) error {
	const probe = "kube-root-ca.crt"
	maps := c.cfg.Cluster.Client().CoreV1().ConfigMaps(metav1.NamespaceDefault)
	if err := maps.Delete(ctx, probe, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("take away what the controller manager puts back: %w", err)
	}
	c.mu.Lock()
	manager := c.manager
	c.mu.Unlock()
	err := manager.Await(ctx, readyTimeout, func(ctx context.Context) error {
		_, err := maps.Get(ctx, probe, metav1.GetOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("wait for the controller manager: %w", err)
	}
	return nil
}

// Err is nil while the program runs, and else says how it has ended, and with which last words. After a Stop it is nil.
func (c *Controllers) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.manager == nil {
		return nil
	}
	return c.manager.Err()
}

// Stop ends the program at once and removes what it kept. A second Stop does nothing.
func (c *Controllers) Stop() (err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.manager != nil {
		err = c.manager.Kill()
	}
	c.manager = nil
	return errors.Join(err, c.dir.Remove())
}

func (c *Controllers) path(name string) string { return filepath.Join(c.dir.Path(), name) }

func (c *Controllers) logPath() string { return c.path(program + ".log") }
