package realnode

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/prometheus/procfs"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/remotecommand"
)

// Exec runs a command in a container of a running pod, as the container's user, and returns what it prints on stdout. What
// it prints on stderr is in the error. An empty container is the pod's first.
func (m *Node) Exec(ctx context.Context, pod *corev1.Pod, container string, command ...string) (string, error) {
	request := m.Client().CoreV1().RESTClient().Post().Resource("pods").Namespace(pod.Namespace).Name(pod.Name).
		SubResource("exec").VersionedParams(&corev1.PodExecOptions{
		Container: container, Command: command, Stdout: true, Stderr: true,
	}, scheme.ParameterCodec)
	executor, err := remotecommand.NewWebSocketExecutor(m.AdminConfig(), "GET", request.URL().String())
	if err != nil {
		return "", err
	}
	var stdout, stderr strings.Builder
	err = executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: &stdout, Stderr: &stderr})
	if err != nil {
		return stdout.String(), fmt.Errorf("%s in %s/%s: %w: %s",
			strings.Join(command, " "), pod.Namespace, pod.Name, err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}

// VolumeDir is where a test finds an inline CSI volume of a pod as the node sees it.
func (m *Node) VolumeDir(pod *corev1.Pod, volume string) string {
	return filepath.Join(m.Root(), "var/lib/kubelet/pods", string(pod.UID), "volumes/kubernetes.io~csi", volume, "mount")
}

// KeepState writes the objects of the API server to [Config.LogDir], beside the logs.
func (m *Node) KeepState(ctx context.Context) error {
	var errs []error
	for name, args := range map[string][]string{
		"objects.txt": {"get", "all,events,csidrivers,csinodes,nodes", "--all-namespaces", "--output=wide"},
		"pods.yaml":   {"get", "pods", "--all-namespaces", "--output=yaml"},
	} {
		text, err := m.Kubectl(ctx, args...)
		errs = append(errs, err, os.WriteFile(filepath.Join(m.cfg.LogDir, name), []byte(text), 0o600))
	}
	return errors.Join(errs...)
}

// Processes returns the IDs of the processes in the node's pods that run a program, by its file's name.
func (m *Node) Processes(program string) ([]int, error) {
	all, err := procfs.AllProcs()
	if err != nil {
		return nil, err
	}
	var found []int
	for _, p := range all {
		path, err := p.Executable()
		if err != nil || filepath.Base(path) != program {
			continue // It is another program, or has ended.
		}
		groups, err := p.Cgroups()
		isHere := func(g procfs.Cgroup) bool { return strings.Contains(g.Path, "/"+m.cgroups.name()+"/") }
		if err == nil && slices.ContainsFunc(groups, isHere) {
			found = append(found, p.PID)
		}
	}
	return found, nil
}
