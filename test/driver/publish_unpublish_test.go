package driver

import (
	"fmt"
	"os/exec"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/liveconfig-csi/liveconfig/test/kit/fixture"
)

// TestUnpublishDuringAnUpdateStorm (faults 13 and 15): volumes go while their source changes as fast as it can, and none
// comes back.
func TestUnpublishDuringAnUpdateStorm(t *testing.T) {
	t.Parallel()
	b := fixture.New(t)
	b.CreateConfigMap("busy", map[string]string{"n": "0"})
	stop, stormed := make(chan struct{}), make(chan int, 1)
	go func() { stormed <- storm(b, "busy", stop) }()
	var pods []*corev1.Pod
	for round := range 15 {
		for i := range 3 {
			policy := []string{"Atomic", "Replace", "InPlace"}[i]
			pod := b.Pod(fmt.Sprintf("web-%d-%d", round, i), map[string]string{"configMap": "busy", "updatePolicy": policy})
			pods = append(pods, pod)
			if err := b.TryPublish(t.Context(), pod); err != nil {
				t.Errorf("publish: %v", err)
			}
		}
		for _, pod := range pods[len(pods)-3:] {
			if err := b.Node.UnpublishAll(t.Context(), pod); err != nil {
				t.Errorf("unpublish: %v", err)
			}
		}
	}
	close(stop)
	if changes := <-stormed; changes < 20 {
		t.Errorf("%d changes meanwhile, want more", changes)
	}
	b.WantNumber("liveconfig_volumes", 0)
	b.WantNumber("liveconfig_watches", 0)
	for _, pod := range pods {
		b.WantNothing(pod, "after the storm")
	}
	if records := recordsHeld(b); records != 0 {
		t.Errorf("%d records, want none", records)
	}
}

// storm changes a ConfigMap as fast as the API server takes it until it is stopped, and returns how often it did.
func storm(b *fixture.Fixture, name string, stop <-chan struct{}) (changes int) {
	for {
		select {
		case <-stop:
			return changes
		default:
		}
		changes++
		if err := change(b.T.Context(), b, name, fmt.Sprint(changes)); err != nil {
			b.T.Errorf("change %d: %v", changes, err)
			return changes
		}
	}
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
	held := openDir(t, inside)
	b.Kill()
	b.Start()
	b.UpdateConfigMap("web", map[string]string{"n": "2"})
	b.WantFile(pod, "n", "2")
	wantIn(t, held, "n", "2")
	begin := time.Now()
	b.Unpublish(pod)
	b.WantNothing(pod, "while a container holds it")
	if took := time.Since(begin); took > 10*time.Second {
		t.Errorf("unpublish took %s while a container holds the volume", took)
	}
	wantIn(t, held, "n", "2") // Its last files, until it ends.
}
