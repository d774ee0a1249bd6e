package controllers_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liveconfig-csi/liveconfig/test/kit/cluster"
	"github.com/liveconfig-csi/liveconfig/test/kit/controllers"
	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
	"github.com/liveconfig-csi/liveconfig/test/kit/orphan"
)

// orphanVariable turns this test binary into a program that starts controllers and waits to be killed.
const orphanVariable = "LIVECONFIG_TEST_CONTROLLERS_ORPHAN"

// patience is how long what takes a second may take on a busy machine.
const patience = 60 * time.Second

func TestMain(m *testing.M) {
	if os.Getenv(orphanVariable) != "" {
		os.Exit(orphan.Be(context.Background(), func(ctx context.Context) error {
			c, err := cluster.Start(ctx, cluster.Config{})
			if err != nil {
				return err
			}
			_, err = controllers.Start(ctx, controllers.Config{Cluster: c, Scheduler: true})
			return err
		}))
	}
	os.Exit(controllers.ForMain(m))
}

func TestWhatLostItsOwnerIsCollected(t *testing.T) {
	t.Parallel()
	controllers.ForTest(t)
	c := cluster.ForTest(t)
	maps := c.Client().CoreV1().ConfigMaps(cluster.NewNamespace(t, c))
	owners := make([]*corev1.ConfigMap, 2)
	for i := range owners {
		owner, err := maps.Create(t.Context(), named(fmt.Sprintf("owner-%d", i)), metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		owners[i] = owner
	}
	if _, err := maps.Create(t.Context(), named("owned", owners...), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}

	// One of two owners goes: that owner is taken off, and the object stays.
	remove := func(name string) {
		t.Helper()
		if err := maps.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	remove("owner-0")
	environment.Eventually(t, patience, func() error {
		owned, err := maps.Get(t.Context(), "owned", metav1.GetOptions{})
		if err != nil {
			t.Fatalf("after one of its owners went: %v", err)
		}
		if len(owned.OwnerReferences) != 1 || owned.OwnerReferences[0].UID != owners[1].UID {
			return fmt.Errorf("owners = %v, want owner-1 alone", owned.OwnerReferences)
		}
		return nil
	})

	remove("owner-1")
	environment.Eventually(t, patience, func() error {
		_, err := maps.Get(t.Context(), "owned", metav1.GetOptions{})
		return gone(err)
	})
}

// gone is nil for the error of reading an object that is not there.
func gone(err error) error {
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err == nil:
		return errors.New("it is there")
	default:
		return err
	}
}

func named(name string, owners ...*corev1.ConfigMap) *corev1.ConfigMap {
	made := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, o := range owners {
		made.OwnerReferences = append(made.OwnerReferences,
			metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: o.Name, UID: o.UID})
	}
	return made
}

func TestDeletedNamespaceIsEmptied(t *testing.T) {
	t.Parallel()
	controllers.ForTest(t)
	c := cluster.ForTest(t)
	namespace := cluster.NewNamespace(t, c)
	if _, err := c.Client().CoreV1().ConfigMaps(namespace).Create(t.Context(), named("inside"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	namespaces := c.Client().CoreV1().Namespaces()
	if err := namespaces.Delete(t.Context(), namespace, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	environment.Eventually(t, patience, func() error {
		_, err := namespaces.Get(t.Context(), namespace, metav1.GetOptions{})
		return gone(err)
	})
}

// TestKilledControllersDoNothingUntilTheyAreRestarted has a scheduler too, whose word is the reason that a pod cannot run.
func TestKilledControllersDoNothingUntilTheyAreRestarted(t *testing.T) {
	t.Parallel()
	c, logs := ownCluster(t), t.TempDir()
	running := start(t, controllers.Config{Cluster: c, LogDir: logs, Scheduler: true})
	if err := running.AwaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := running.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := running.Kill(); err != nil {
		t.Errorf("second Kill: %v", err)
	}
	if _, err := c.Client().CoreV1().Pods("default").Create(t.Context(), pod(), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := running.AwaitReady(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("wait for killed controllers: error = %v, want that of the context", err)
	}

	if err := running.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := running.AwaitReady(t.Context()); err != nil {
		t.Error(err)
	}
	environment.Eventually(t, patience, func() error {
		got, err := c.Client().CoreV1().Pods("default").Get(t.Context(), "pod", metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, condition := range got.Status.Conditions {
			if condition.Type == corev1.PodScheduled && condition.Reason == corev1.PodReasonUnschedulable {
				return nil
			}
		}
		return fmt.Errorf("conditions = %v, want the scheduler's, that there is no node", got.Status.Conditions)
	})

	if err := running.Stop(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"kube-controller-manager.log", "kube-scheduler.log"} {
		if _, err := os.Stat(filepath.Join(logs, name)); err != nil {
			t.Errorf("log was not kept: %v", err)
		}
	}
}

func pod() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "pod"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "none"}}},
	}
}

func TestWrongStartSaysWhy(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		cfg  controllers.Config
		want string
	}{
		"programs that are missing": {controllers.Config{BinDir: t.TempDir()}, "make bin/node"},
		"a flag that is invalid":    {controllers.Config{Args: []string{"--no-such-flag"}}, "unknown flag: --no-such-flag"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.cfg.Cluster = cluster.ForTest(t)
			running, err := controllers.Start(t.Context(), test.cfg)
			if err == nil {
				t.Cleanup(func() { stop(t, running) })
				// The tests' own controllers put back what is taken away: it may take a while to see that these have ended.
				environment.Eventually(t, patience, func() error {
					if err = running.Err(); err == nil {
						return errors.New("the controller manager runs")
					}
					return nil
				})
			}
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error = %v, want %q in it", err, test.want)
			}
		})
	}
}

func TestKilledParentTakesTheControllersWithIt(t *testing.T) {
	t.Parallel()
	temp, err := os.MkdirTemp("", "lc") //nolint:usetesting // t.TempDir is too long for a socket's path.
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(temp) })
	kill := orphan.Start(t, orphanVariable+"=1", "TMPDIR="+temp)
	const programs = 4 // With etcd and the API server.
	if got := running(t, temp); len(got) != programs {
		t.Errorf("%d programs run below %s: %q, want %d", len(got), temp, got, programs)
	}
	kill()
	environment.Eventually(t, patience, func() error {
		if left := running(t, temp); len(left) > 0 {
			return fmt.Errorf("programs are left: %q", left)
		}
		return nil
	})
}

// running returns the command lines of programs that have a folder in one of their flags.
func running(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, file := range files {
		line, err := os.ReadFile(file)
		if err != nil {
			continue // It has ended.
		}
		if cwd, _ := os.Readlink(filepath.Join(filepath.Dir(file), "cwd")); strings.HasPrefix(cwd, dir) || strings.Contains(string(line), dir) {
			found = append(found, strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	return found
}

func ownCluster(t *testing.T) *cluster.Cluster {
	t.Helper()
	c, err := cluster.Start(t.Context(), cluster.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func start(t *testing.T, cfg controllers.Config) *controllers.Controllers {
	t.Helper()
	running, err := controllers.Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, running) })
	return running
}

func stop(t *testing.T, running *controllers.Controllers) {
	t.Helper()
	if err := running.Stop(); err != nil {
		t.Error(err)
	}
}
