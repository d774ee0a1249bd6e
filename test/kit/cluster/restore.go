package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/liveconfig-csi/liveconfig/test/kit/process"
)

// The names of etcd's data, and of what [Cluster.Save] keeps of them, in the cluster's directory.
const (
	etcdData  = "etcd"
	etcdSaved = "etcd.saved"
)

// Save restarts etcd and the API server, and keeps a copy of all objects as they are in between.
func (c *Cluster) Save(ctx context.Context) error { return c.copyData(ctx, etcdSaved, etcdData) }

// Restore restarts etcd and the API server with all objects as they were at [Cluster.Save]. Resource versions go back
// too, as they do when an administrator restores a backup.
func (c *Cluster) Restore(ctx context.Context) error { return c.copyData(ctx, etcdData, etcdSaved) }

func (c *Cluster) copyData(ctx context.Context, to, from string) error {
	if err := errors.Join(c.StopAPIServer(), c.stopEtcd()); err != nil {
		return err
	}
	if err := errors.Join(os.RemoveAll(c.path(to)), os.CopyFS(c.path(to), os.DirFS(c.path(from)))); err != nil {
		return fmt.Errorf("copy the data of etcd: %w", err)
	}
	if err := c.startEtcd(ctx); err != nil {
		return err
	}
	return c.StartAPIServer(ctx)
}

func (c *Cluster) stopEtcd() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var etcd *process.Process
	etcd, c.etcd = c.etcd, nil
	return etcd.Stop(stopGrace)
}
