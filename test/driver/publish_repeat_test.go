package driver

import (
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
	"github.com/liveconfig-csi/liveconfig/test/kit/fakekubelet"
	"github.com/liveconfig-csi/liveconfig/test/kit/fixture"
	"github.com/liveconfig-csi/liveconfig/test/kit/node"
)

// TestRepeatsLeaveOneMount (faults 11 and 12) repeats publishes, from one kubelet and from many that were restarted,
// also when the driver was, and when the source is gone. Each answer is OK, and of each volume there is one line in the
// mount table, the same one all the time.
func TestRepeatsLeaveOneMount(t *testing.T) {
	t.Parallel()
	b := fixture.New(t)
	b.CreateConfigMap("web", map[string]string{"n": "1"})
	var pods []*corev1.Pod
	for i := range 4 {
		pod := b.Pod(fmt.Sprintf("web-%d", i), map[string]string{"configMap": "web"})
		fixture.AddVolume(pod, "more", map[string]string{"configMap": "web", "updatePolicy": "Replace"})
		b.Publish(pod)
		pods = append(pods, pod)
	}
	volumes := 2 * len(pods)
	before, generation := environment.Mounts(t, b.Node.KubeletDir()), b.Generation(pods[0])
	for range 50 {
		if err := b.TryPublish(t.Context(), pods[0]); err != nil {
			t.Errorf("repeat: %v", err)
		}
	}
	for i := range 20 {
		switch i {
		case 7:
			b.Kill()
			b.Start()
		case 14:
			b.DeleteConfigMap("web")
		}
		republishAfterRestart(b, pods)
	}
	after := environment.Mounts(t, b.Node.KubeletDir())
	if len(after) != volumes || fmt.Sprint(before) != fmt.Sprint(after) {
		t.Errorf("%d mounts, want %d, the same as before: before\n%s\nafter\n%s", len(after), volumes, before, after)
	}
	if got := b.Generation(pods[0]); got != generation {
		t.Errorf("generation %s became %s without a change", generation, got)
	}
	b.WantNumber("liveconfig_volumes", float64(volumes))
	b.WantNumber("liveconfig_watches", 1)
}

// republishAfterRestart is what a kubelet does that has started: it publishes every volume of every pod, all at once.
func republishAfterRestart(b *fixture.Fixture, pods []*corev1.Pod) {
	b.T.Helper()
	k, err := fakekubelet.New(b.Node.KubeletDir(), node.DriverName, b.Node.Socket())
	must(b.T, err)
	defer k.Close()
	k.UseTokens(b.Cluster.PodToken)
	var all sync.WaitGroup
	for _, pod := range pods {
		for _, volume := range k.Volumes(pod) {
			all.Go(func() {
				if err := b.Heard(k.Publish(b.T.Context(), pod, volume)); err != nil {
					b.T.Errorf("repeat after a restart of the kubelet: %v", err)
				}
			})
		}
	}
	all.Wait()
}

// TestAContainerHoldsTheVolume (fault 23) has a process with a separate mount namespace, as every container has,
// and so with a mount of the volume that nobody else can take away. A driver that was restarted meanwhile still changes
// what the container sees, and takes the volume from the node at once; what the container holds goes with it.
func TestAContainerHoldsTheVolume(t *testing.T) {
	t.Parallel()
	b := fixture.New(t)
	pod := publish(b, "web", "1")
	container := exec.CommandContext(t.Context(), "sleep", "600")
	container.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	must(t, container.Start())
	t.Cleanup(func() {
		_ = container.Process.Kill()
		_ = container.Wait()
	})
	inside := fmt.Sprintf("/proc/%d/root%s", container.Process.Pid, b.Node.Target(pod, fixture.VolumeName))
	held, err := os.OpenRoot(inside) // As a container does whose mount is its own.
	must(t, err)
	defer held.Close()
	wantHeld := func(want string) {
		t.Helper()
		if got, err := held.ReadFile("n"); err != nil || environment.Unmarked(string(got)) != want {
			t.Errorf("the file of a volume that a container holds is %q, %v, want %q", got, err, want)
		}
	}
	b.Kill()
	b.Start()
	b.UpdateConfigMap("web", map[string]string{"n": "2"})
	b.WantFile(pod, "n", "2")
	wantHeld("2")
	begin := time.Now()
	b.Unpublish(pod)
	b.WantNothing(pod, "while a container holds it")
	if took := time.Since(begin); took > 10*time.Second {
		t.Errorf("unpublish took %s while a container holds the volume", took)
	}
	wantHeld("2") // Its last files, until it ends.
}
