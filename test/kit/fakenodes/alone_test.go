package fakenodes_test

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liveconfig-csi/liveconfig/test/kit/cluster"
	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
	"github.com/liveconfig-csi/liveconfig/test/kit/fakenodes"
)

// TestNextStageGoesOn needs no controllers: pods may be made by hand. Its cluster is its own, because it stops the API server.
func TestNextStageGoesOn(t *testing.T) {
	t.Parallel()
	c, err := cluster.Start(t.Context(), cluster.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	h := theatre{T: t, Nodes: start(t, c), cluster: c, namespace: "default"}
	h.pod("first", template().Spec, fakenodes.IsReady)
	h.Stop()
	h.Stop()
	h.Nodes = start(t, c)
	if got := h.Pods("default"); len(got) != 1 || !fakenodes.IsReady(got[0]) {
		t.Errorf("pods after a restart = %v, want the one that was ready", got)
	}
	if err := c.RestartAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.pod("second", template().Spec, fakenodes.IsReady)
}

func start(t *testing.T, c *cluster.Cluster) *fakenodes.Nodes {
	t.Helper()
	stage, err := fakenodes.Start(t.Context(), c, fakenodes.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stage.Stop)
	return stage
}

// TestNodesStayReady: the controller manager would take a node for lost that renews no lease.
func TestNodesStayReady(t *testing.T) {
	t.Parallel()
	h := open(t)
	leases := h.cluster.Client().CoordinationV1().Leases(corev1.NamespaceNodeLease)
	first := make(map[string]time.Time)
	environment.Eventually(t, time.Minute, func() error {
		found, err := leases.List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		renewed := 0
		for _, lease := range found.Items {
			if _, known := first[lease.Name]; !known {
				first[lease.Name] = lease.Spec.RenewTime.Time
			}
			if lease.Spec.RenewTime.After(first[lease.Name]) {
				renewed++
			}
		}
		if renewed != replicas {
			return fmt.Errorf("%d leases were renewed, want %d", renewed, replicas)
		}
		return nil
	})
	nodes, err := h.cluster.Client().CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, node := range nodes.Items {
		if len(node.Spec.Taints) > 0 {
			t.Errorf("node %s has taints: %v", node.Name, node.Spec.Taints)
		}
	}
}
