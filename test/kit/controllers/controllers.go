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
	cluster *cluster.Cluster
	dir     *workdir.Dir
	manager *process.Process
}

// Start starts the program and returns when it works. It runs until [Controllers.Stop], which the caller must call, or until
// this process dies. When Start fails, nothing is left behind.
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
	c := &Controllers{cluster: cfg.Cluster, dir: dir}
	if err := c.start(ctx, filepath.Join(filepath.Dir(path), program), cfg.Args); err != nil {
		return nil, errors.Join(fmt.Errorf("start the controllers (run `make bin/node` to build them): %w", err), dir.Remove())
	}
	if err := c.awaitReady(ctx); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

func (c *Controllers) start(ctx context.Context, path string, more []string) (err error) {
	kubeconfig := c.path(program + ".kubeconfig")
	if err := c.cluster.WriteUserKubeconfig(kubeconfig, "system:"+program); err != nil {
		return err
	}
	args := append([]string{
		"--kubeconfig=" + kubeconfig, "--leader-elect=false", "--secure-port=0", "--cert-dir=" + c.path(program),
		"--root-ca-file=" + c.cluster.CAFile(), "--service-account-private-key-file=" + c.cluster.TokenKeyFile(),
		"--use-service-account-credentials",
	}, more...)
	c.manager, err = process.Start(context.WithoutCancel(ctx), process.Config{Path: path, Args: args, LogFile: c.logPath()})
	return err
}

// awaitReady returns when the controller manager has been seen to do something: the certificate that it puts into every
// namespace is taken out of one and comes back. It fails at once when the program has ended.
func (c *Controllers) awaitReady(ctx context.Context) error {
	const probe = "kube-root-ca.crt"
	maps := c.cluster.Client().CoreV1().ConfigMaps(metav1.NamespaceDefault)
	if err := maps.Delete(ctx, probe, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("take away what the controller manager puts back: %w", err)
	}
	err := c.manager.Await(ctx, readyTimeout, func(ctx context.Context) error {
		_, err := maps.Get(ctx, probe, metav1.GetOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("wait for the controller manager: %w", err)
	}
	return nil
}

// Stop ends the program at once and removes what it kept. A second Stop does nothing.
func (c *Controllers) Stop() error { return errors.Join(c.manager.Kill(), c.dir.Remove()) }

func (c *Controllers) path(name string) string { return filepath.Join(c.dir.Path(), name) }

func (c *Controllers) logPath() string { return c.path(program + ".log") }
