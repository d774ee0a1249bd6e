package realnode_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liveconfig-csi/liveconfig/test/kit/cluster"
	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
	"github.com/liveconfig-csi/liveconfig/test/kit/expect"
	"github.com/liveconfig-csi/liveconfig/test/kit/orphan"
	"github.com/liveconfig-csi/liveconfig/test/kit/realnode"
)

// orphanVariable turns this test binary into a program that starts a machine and waits to be killed.
const orphanVariable = "LIVECONFIG_TEST_MACHINE_ORPHAN"

func TestMain(m *testing.M) {
	os.Exit(realnode.Main(cluster.MainFunc(func() int {
		if logs := os.Getenv(orphanVariable); logs != "" {
			return orphan.Be(context.Background(), func(ctx context.Context) error {
				m, err := start(ctx, logs)
				if err != nil {
					return err
				}
				return startPod(ctx, m)
			})
		}
		return m.Run()
	})))
}

func start(ctx context.Context, logs string) (*realnode.Node, error) {
	repo, err := environment.Repo()
	if err != nil {
		return nil, err
	}
	return realnode.Start(ctx, realnode.Config{Runtime: realnode.Containerd2(), Repo: repo, LogDir: logs})
}

func startPod(ctx context.Context, m *realnode.Node) error {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "pod"},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "main", Image: realnode.BoxImage, Command: []string{"box", "pause"},
		}}},
	}
	if _, err := m.Client().CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		return err
	}
	_, err := m.Kubectl(ctx, "wait", "--for=condition=Ready", "--timeout=90s", "pod/pod")
	return err
}

// TestNothingOutlivesTheProgram kills a program that runs a machine. Its processes die with it, and the next machine removes
// what cannot die: directories and control groups. That one is stopped cleanly and leaves nothing either.
func TestNothingOutlivesTheProgram(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	before := sysctls(t)
	kill := orphan.Start(t, orphanVariable+"="+t.TempDir())
	kill()
	expect.Eventually(t, 30*time.Second, func() error {
		if left := orphan.Left(t, temp); len(left) > 0 {
			return fmt.Errorf("processes are left: %q", left)
		}
		return nil
	})
	m, err := start(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if dirs := glob(t, filepath.Join(temp, "lc-machine-*")); len(dirs) != 1 {
		t.Errorf("directories while one machine runs: %q", dirs)
	}
	if err := startPod(t.Context(), m); err != nil {
		t.Error(err)
	}
	if after := sysctls(t); after != before {
		t.Errorf("the kernel's settings were %s, and are %s", before, after)
	}
	if err := m.Stop(); err != nil {
		t.Error(err)
	}
	left := append(orphan.Left(t, temp), glob(t, filepath.Join(temp, "*"))...)
	for _, group := range []string{"/sys/fs/cgroup/" + m.Name(), "/sys/fs/cgroup/*/" + m.Name()} {
		left = append(left, glob(t, group)...)
	}
	if len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

func glob(t *testing.T, pattern string) []string {
	t.Helper()
	found, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// sysctls returns what a kubelet would set for the whole kernel.
func sysctls(t *testing.T) string {
	t.Helper()
	var values []string
	for _, name := range []string{"kernel/panic", "kernel/panic_on_oops", "vm/overcommit_memory", "vm/panic_on_oom"} {
		value, err := os.ReadFile("/proc/sys/" + name)
		if err != nil {
			t.Fatal(err)
		}
		values = append(values, name+"="+strings.TrimSpace(string(value)))
	}
	return strings.Join(values, " ")
}
