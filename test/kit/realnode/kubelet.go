package realnode

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/liveconfig-csi/liveconfig/test/kit/process"
)

// nodeTimeout is how long a kubelet may take to report that its node is ready.
const nodeTimeout = 2 * time.Minute

// kubeletConfig is a kubelet's of a small node, with the defaults for everything that is about volumes and pod syncs.
func (m *Node) kubeletConfig() map[string]any {
	return map[string]any{
		"apiVersion":               "kubelet.config.k8s.io/v1beta1",
		"kind":                     "KubeletConfiguration",
		"address":                  nodeIP,
		"healthzPort":              0,
		"authentication":           map[string]any{"anonymous": off(), "webhook": off(), "x509": map[string]any{"clientCAFile": m.CAFile()}},
		"authorization":            map[string]any{"mode": "AlwaysAllow"},
		"containerRuntimeEndpoint": "unix://" + runtimeSocket,
		"cgroupDriver":             "cgroupfs",
		"cgroupRoot":               "/" + m.cgroups.name(),
		"failCgroupV1":             false,
		"failSwapOn":               false,
		"maxPods":                  250,
		"registerWithTaints":       m.taints,
		"makeIPTablesUtilChains":   false,
		"clusterDNS":               []string{"10.96.0.10"}, // Nobody answers there: tests use no names.
		"resolvConf":               "",
		"volumePluginDir":          m.path("flexvolumes"),
		// A machine for tests may be nearly full, and its images came by hand.
		"imageGCHighThresholdPercent": 100,
		"evictionHard": map[string]string{
			"imagefs.available": "0%", "imagefs.inodesFree": "0%", "nodefs.available": "0%", "nodefs.inodesFree": "0%",
			"memory.available": "10Mi",
		},
	}
}

func off() map[string]any { return map[string]any{"enabled": false} }

// StartKubelet starts the kubelet and waits until its node is ready. It does nothing while the kubelet runs.
func (m *Node) StartKubelet(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.kubelet != nil {
		return nil
	}
	config, err := yaml.Marshal(m.kubeletConfig())
	if err != nil {
		return err
	}
	if err := m.write("kubelet.yaml", string(config)); err != nil {
		return err
	}
	if err := m.WriteUserKubeconfig(m.path("kubelet.kubeconfig"), "system:node:"+NodeName, "system:nodes"); err != nil {
		return err
	}
	begin := time.Now()
	p, err := process.Start(context.WithoutCancel(ctx), process.Config{
		Path: m.cfg.k8s("kubelet"), LogFile: m.log("kubelet"), Beside: m.init.PID(),
		Args: []string{
			"--config=" + m.path("kubelet.yaml"), "--kubeconfig=" + m.path("kubelet.kubeconfig"),
			"--hostname-override=" + NodeName, "--node-ip=" + nodeIP, "--cert-dir=" + m.path("kubelet-certificates"), "--v=2",
		},
	})
	if err != nil {
		return err
	}
	m.kubelet = p
	return p.Await(ctx, nodeTimeout, func(ctx context.Context) error { return m.nodeReady(ctx, begin) })
}

// nodeReady also wants the word of this kubelet: an earlier one's stands for a while.
func (m *Node) nodeReady(ctx context.Context, since time.Time) error {
	node, err := m.Client().CoreV1().Nodes().Get(ctx, NodeName, metav1.GetOptions{})
	if err != nil {
		return err
	}
	for _, taint := range node.Spec.Taints {
		if taint.Key == corev1.TaintNodeNotReady {
			return fmt.Errorf("the node is tainted: %s", taint.Key)
		}
	}
	for _, c := range node.Status.Conditions {
		// The API has whole seconds.
		fresh := !c.LastHeartbeatTime.Time.Before(since.Truncate(time.Second))
		if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue && fresh {
			return nil
		}
	}
	return fmt.Errorf("the node is not ready: %v", node.Status.Conditions)
}

// KillKubelet ends the kubelet by SIGKILL. Containers run on.
func (m *Node) KillKubelet() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return kill(&m.kubelet)
}

// Renew makes the node a new one, which has these taints when it comes up: the cluster knows neither it
// nor its pods any more. Call it between [Node.PowerOff] and [Node.PowerOn].
func (m *Node) Renew(ctx context.Context, taints ...corev1.Taint) error {
	m.mu.Lock()
	m.taints = taints
	m.mu.Unlock()
	if err := m.Client().CoreV1().Nodes().Delete(ctx, NodeName, metav1.DeleteOptions{}); err != nil {
		return err
	}
	now := metav1.DeleteOptions{GracePeriodSeconds: new(int64)}
	pods, err := m.Client().CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, pod := range pods.Items {
		if err := m.Client().CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, now); err != nil {
			return err
		}
	}
	return nil
}

// PowerOff ends everything on the node at once, as pulling its plug would: processes, mounts and what is in memory. The
// control plane and the node's disk stay.
func (m *Node) PowerOff() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := errors.Join(kill(&m.init), kill(&m.kubelet), kill(&m.containerd)); err != nil { // The others have died with the first.
		return err
	}
	// Control groups are in memory too.
	return m.cgroups.empty()
}

// PowerOn boots the node again with the disk that it had, and waits until it is ready.
func (m *Node) PowerOn(ctx context.Context) error {
	// Links of pods may still be there, with routes to their addresses.
	if err := m.writeRuntimeFiles(); err != nil {
		return err
	}
	if err := m.boot(ctx); err != nil {
		return err
	}
	return m.StartKubelet(ctx)
}
