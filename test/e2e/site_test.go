package e2e_test

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
	"github.com/liveconfig-csi/liveconfig/test/kit/expect"
	kit "github.com/liveconfig-csi/liveconfig/test/kit/install"
	"github.com/liveconfig-csi/liveconfig/test/kit/realnode"
)

// logVariable names another folder for the logs than bin/test/e2e, so that two runs can go on at once.
const logVariable = "LIVECONFIG_E2E_LOGS"

// current is the node that is running, if any. Starting one takes seconds, so tests share it: the one variable of the
// package. Tests that use it are not parallel.
var current struct {
	site   *site
	starts int
	failed map[string]error // By runtime: starting it again would not help.
}

// site is a node with the driver installed.
type site struct{ *kit.Installation }

// on returns a node with a container runtime, and with the driver installed as in the README. One with another runtime is
// stopped first. A test that fails may leave the node in any state, so it is the last one of its node.
func on(t *testing.T, runtime realnode.Runtime) *site {
	t.Helper()
	if err := current.failed[runtime.Name]; err != nil {
		t.Fatalf("as before: %v", err)
	}
	if current.site != nil && current.site.Runtime().Name != runtime.Name {
		leave(t)
	}
	if current.site == nil {
		s, err := newSite(context.WithoutCancel(t.Context()), runtime)
		if err != nil {
			if current.failed == nil {
				current.failed = map[string]error{}
			}
			current.failed[runtime.Name] = err
			t.Fatal(err)
		}
		current.site = s
	}
	s := current.site
	t.Cleanup(func() {
		if t.Failed() && current.site == s {
			t.Logf("the logs of all programs and pods are in %s", s.LogDir())
			if err := s.KeepState(context.Background()); err != nil {
				t.Logf("keep the state of the cluster: %v", err)
			}
			leave(t)
		}
	})
	return s
}

// leave stops the node that is running.
func leave(t *testing.T) {
	t.Helper()
	s := current.site
	current.site = nil
	if err := s.Stop(); err != nil {
		t.Errorf("stop the node: %v", err)
	}
}

// logDir is where all logs of a run are.
func logDir() (string, error) {
	repo, err := environment.Repo()
	return cmp.Or(os.Getenv(logVariable), filepath.Join(repo, "bin", "test", "e2e")), err
}

func newSite(ctx context.Context, runtime realnode.Runtime) (*site, error) {
	repo, err := environment.Repo()
	if err != nil {
		return nil, err
	}
	logs, err := logDir()
	if err != nil {
		return nil, err
	}
	current.starts++
	cfg := kit.Config{
		Runtime: runtime, Repo: repo, LogDir: filepath.Join(logs, fmt.Sprint(current.starts, "-", runtime.Name)), Output: os.Stderr,
	}
	if built := environment.Programs(); built != "" {
		cfg.Box, cfg.Image = filepath.Join(built, "box"), filepath.Join(built, "docker.tar")
	}
	s, err := kit.Start(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return &site{s}, nil
}

// driverPod returns the driver's pod once it is ready and no other is left.
func (s *site) driverPod(t testing.TB) string {
	t.Helper()
	return s.driverPodWithin(t, startTimeout)
}

func (s *site) driverPodWithin(t testing.TB, timeout time.Duration) string {
	t.Helper()
	var name string
	expect.Eventually(t, timeout, func() error {
		pods, err := s.Client().CoreV1().Pods("liveconfig-system").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		if len(pods.Items) != 1 {
			return fmt.Errorf("there are %d pods of the driver, want 1", len(pods.Items))
		}
		name = pods.Items[0].Name
		return ready(&pods.Items[0])
	})
	return name
}
