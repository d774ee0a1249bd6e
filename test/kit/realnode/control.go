package realnode

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/liveconfig-csi/liveconfig/test/kit/cluster"
	"github.com/liveconfig-csi/liveconfig/test/kit/network"
	"github.com/liveconfig-csi/liveconfig/test/kit/process"
)

// startControlPlane starts etcd, the API server with its address for pods, the controller manager and the scheduler.
func (m *Node) startControlPlane(ctx context.Context) error {
	c, err := cluster.Start(ctx, cluster.Config{
		BinDir: filepath.Dir(m.cfg.k8s("etcd")), LogDir: m.cfg.LogDir, Output: m.cfg.Output,
	})
	if err != nil {
		return err
	}
	m.Cluster = c
	link, err := network.ListenAt(context.WithoutCancel(ctx), cluster.ServiceIP+":443", c.AdminConfig().Host)
	if err != nil {
		return fmt.Errorf("give pods a way to the API server: %w", err)
	}
	m.link = link
	m.mu.Lock()
	defer m.mu.Unlock()
	m.manager, err = m.startController(ctx, "kube-controller-manager",
		"--root-ca-file="+c.CAFile(), "--service-account-private-key-file="+c.TokenKeyFile(), "--use-service-account-credentials")
	if err != nil {
		return err
	}
	m.scheduler, err = m.startController(ctx, "kube-scheduler")
	return err
}

func (m *Node) startController(ctx context.Context, program string, args ...string) (*process.Process, error) {
	kubeconfig := m.path(program + ".kubeconfig")
	if err := m.WriteUserKubeconfig(kubeconfig, "system:"+program); err != nil {
		return nil, err
	}
	common := []string{
		"--kubeconfig=" + kubeconfig, "--leader-elect=false", "--secure-port=0", "--cert-dir=" + m.path(program),
	}
	return process.Start(context.WithoutCancel(ctx), process.Config{
		Path: m.cfg.k8s(program), Args: append(common, args...), LogFile: m.log(program),
	})
}
