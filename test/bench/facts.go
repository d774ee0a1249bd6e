package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liveconfig-csi/liveconfig/test/bench/report"
	"github.com/liveconfig-csi/liveconfig/test/bench/site"
	"github.com/liveconfig-csi/liveconfig/test/kit/realnode"
)

// facts returns what the figures depend on.
func facts(ctx context.Context, s *site.Site) ([]report.Fact, error) {
	server, err := s.Client().Discovery().ServerVersion()
	if err != nil {
		return nil, err
	}
	node, err := s.Client().CoreV1().Nodes().Get(ctx, realnode.NodeName, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	var kernel unix.Utsname
	if err := unix.Uname(&kernel); err != nil {
		return nil, err
	}
	load, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return nil, err
	}
	var errs []error
	known := func(value string, err error) string {
		errs = append(errs, err)
		return value
	}
	all := []report.Fact{
		{Name: "liveconfig", Value: known(revision(ctx, s.Repo()))},
		{Name: "kube-apiserver", Value: server.GitVersion},
		{Name: "etcd", Value: known(firstLine(ctx, filepath.Join(s.Repo(), "bin", "k8s", "etcd"), "--version"))},
		{Name: "kubelet", Value: node.Status.NodeInfo.KubeletVersion},
		{Name: "container runtime", Value: node.Status.NodeInfo.ContainerRuntimeVersion},
		{Name: "Go", Value: runtime.Version()},
		{Name: "kernel", Value: unix.ByteSliceToString(kernel.Release[:])},
		{Name: "processors", Value: fmt.Sprintf("%d × %s", runtime.NumCPU(), known(field("/proc/cpuinfo", "model name")))},
		{Name: "memory", Value: known(field("/proc/meminfo", "MemTotal"))},
		{Name: "load before the run", Value: strings.Join(strings.Fields(string(load))[:3], " ")},
	}
	return all, errors.Join(errs...)
}

// revision is the commit of the checkout, and whether there is more in it.
func revision(ctx context.Context, repo string) (string, error) {
	return firstLine(ctx, "git", "-c", "safe.directory="+repo, "-C", repo, "describe", "--always", "--dirty", "--exclude=*")
}

func firstLine(ctx context.Context, command ...string) (string, error) {
	out, err := exec.CommandContext(ctx, command[0], command[1:]...).Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w", strings.Join(command, " "), err)
	}
	line, _, _ := strings.Cut(string(out), "\n")
	return line, nil
}

// field returns the first value of a name in a file of /proc.
func field(path, name string) (string, error) {
	text, err := os.ReadFile(path)
	for l := range strings.Lines(string(text)) {
		if key, value, _ := strings.Cut(l, ":"); strings.TrimSpace(key) == name {
			return strings.TrimSpace(value), nil
		}
	}
	return "unknown", err
}
