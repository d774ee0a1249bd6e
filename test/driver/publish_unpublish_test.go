package driver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"

	"github.com/liveconfig-csi/liveconfig/test/kit/cluster"
	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
	"github.com/liveconfig-csi/liveconfig/test/kit/fakekubelet"
	"github.com/liveconfig-csi/liveconfig/test/kit/fixture"
)

// sendUnpublish makes the bare call, without what a kubelet does around it.
func sendUnpublish(b *fixture.Fixture, pod *corev1.Pod) error {
	ctx, cancel := context.WithTimeout(b.T.Context(), fixture.Soon)
	defer cancel()
	_, err := b.Node.Node().NodeUnpublishVolume(ctx, &csi.NodeUnpublishVolumeRequest{
		VolumeId: fakekubelet.VolumeID(pod, fixture.VolumeName), TargetPath: b.Node.Target(pod, fixture.VolumeName),
	})
	return err
}

// TestUnpublishOfWhatIsNotThere (fault 13): a volume that never was, one whose mount or whose target is gone, and one that
// is unpublished over and over, also by several at once. Each ends in OK; Aborted is only for a call that comes in between.
func TestUnpublishOfWhatIsNotThere(t *testing.T) {
	t.Parallel()
	b := fixture.New(t)
	b.CreateConfigMap("web", map[string]string{"n": "1"})
	for name, prepare := range map[string]func(pod *corev1.Pod){
		"never published": func(*corev1.Pod) {},
		"published":       b.Publish,
		"unmounted": func(pod *corev1.Pod) {
			b.Publish(pod)
			unmount(t, b.Node.Target(pod, fixture.VolumeName))
		},
		"target gone": func(pod *corev1.Pod) {
			b.Publish(pod)
			unmount(t, b.Node.Target(pod, fixture.VolumeName))
			must(t, os.RemoveAll(filepath.Join(b.Node.KubeletDir(), "pods", string(pod.UID))))
		},
	} {
		pod := b.Pod("web", map[string]string{"configMap": "web"})
		prepare(pod)
		answers := make(chan error, 16)
		for range cap(answers) {
			go func() { answers <- sendUnpublish(b, pod) }()
		}
		for range cap(answers) {
			if err := <-answers; err != nil && status.Code(err) != codes.Aborted {
				t.Errorf("%s: one of many unpublishes at once: %v", name, err)
			}
		}
		for range 2 {
			if err := sendUnpublish(b, pod); err != nil {
				t.Errorf("%s: unpublish: %v", name, err)
			}
		}
		b.WantNothing(pod, name)
		b.WantNumber("liveconfig_volumes", 0)
		b.WantNumber("liveconfig_watches", 0)
		if records := recordsHeld(b); records != 0 {
			t.Errorf("%s: %d records, want none", name, records)
		}
	}
}

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

// TestAFirstPublishThatFailsLeavesNothing (fault 15): no unpublish will follow.
func TestAFirstPublishThatFailsLeavesNothing(t *testing.T) {
	t.Parallel()
	b := fixture.New(t, "--publish-timeout=100ms")
	b.CreateConfigMap("web", map[string]string{"a": "1", "b": "2"})
	for name, tt := range map[string]struct {
		attributes map[string]string
		code       codes.Code
	}{
		"no such object":    {map[string]string{"configMap": "none"}, codes.FailedPrecondition},
		"no such key":       {map[string]string{"configMap": "web", "items": "[{key: z, path: z}]"}, codes.FailedPrecondition},
		"bad attributes":    {map[string]string{"configMap": "web", "defaultMode": "9"}, codes.InvalidArgument},
		"another namespace": {map[string]string{"secret": "x", "namespace": "kube-system"}, codes.PermissionDenied},
		"paths that conflict": {
			map[string]string{"sources": "[{configMap: {name: web}}, {configMap: {name: web, items: [{key: b, path: a/b}]}}]"},
			codes.InvalidArgument,
		},
	} {
		pod := b.Pod("web", tt.attributes)
		b.WantRefusal(pod, tt.code, "")
		b.WantNothing(pod, name)
		wantNothingHeld(b, name)
	}

	// The last step is the one that fails: somebody's file is in the way, which stays.
	pod := b.Pod("web", map[string]string{"configMap": "web"})
	target := b.Node.Target(pod, fixture.VolumeName)
	file := filepath.Join(target, "somebody's")
	must(t, errors.Join(os.MkdirAll(target, 0o750), os.WriteFile(file, []byte("kept"), 0o600)))
	if err := b.TryPublish(t.Context(), pod); err == nil {
		t.Error("a publish onto a directory that holds a file succeeded")
	}
	b.WantMounts(0, "a file is in the way")
	wantNothingHeld(b, "a file is in the way")
	must(t, os.Remove(file))
	b.Publish(pod)
	b.WantFile(pod, "a", "1")
}

// wantNothingHeld wants the driver to hold nothing for any volume, in memory or on disk.
func wantNothingHeld(b *fixture.Fixture, when string) {
	b.T.Helper()
	b.WantNumber("liveconfig_volumes", 0)
	b.WantNumber("liveconfig_watches", 0)
	if records, tokens := recordsHeld(b), tokensHeld(b); records+tokens != 0 {
		b.T.Errorf("%s: %d records and %d tokens, want none", when, records, tokens)
	}
}

// TestAPodThatHasEndedIsNotRefreshed (fault 31): of a pod that has ended the kubelet takes the volumes away, and with the
// last one of an object ends all that is done for it. The audit log has the end of the watch and nothing after it.
func TestAPodThatHasEndedIsNotRefreshed(t *testing.T) {
	t.Parallel()
	b := fixture.New(t)
	b.CreateConfigMap("web", map[string]string{"n": "1"})
	ended, lives := b.Pod("ended", map[string]string{"configMap": "web"}), b.Pod("lives", map[string]string{"configMap": "web"})
	b.Publish(ended)
	b.Publish(lives)
	b.Unpublish(ended)
	b.WantNumber("liveconfig_watches", 1) // The other pod's.
	b.UpdateConfigMap("web", map[string]string{"n": "2"})
	b.WantFile(lives, "n", "2")
	b.WantNothing(ended, "after a change")

	b.Unpublish(lives)
	b.WantNumber("liveconfig_watches", 0)
	environment.Eventually(t, fixture.Soon, func() error { return watchesHaveEnded(b) })
	syncs, since := syncsOf(b), time.Now()
	for i := range 20 {
		b.UpdateConfigMap("web", map[string]string{"n": fmt.Sprint(i)})
	}
	requests, err := b.Cluster.Requests(since)
	must(t, err)
	for _, r := range requests {
		if r.Namespace == b.Namespace && r.User == cluster.ServiceAccountUser(environment.DriverNamespace, environment.DriverAccount) && r.Resource != "events" {
			t.Errorf("request that nothing needs: %s", r)
		}
	}
	if got := syncsOf(b); got != syncs {
		t.Errorf("%v syncs, want %v as before the changes", got, syncs)
	}
}

// watchesHaveEnded returns an error while a watch of the driver in the bench's namespace is open.
func watchesHaveEnded(b *fixture.Fixture) error {
	requests, err := b.Cluster.Requests(time.Time{})
	if err != nil {
		return err
	}
	open := map[string]bool{}
	for _, r := range requests {
		if r.Namespace != b.Namespace || r.Verb != "watch" {
			continue
		}
		open[r.ID] = r.Stage != cluster.StageComplete
	}
	if len(open) == 0 {
		return errors.New("the audit log has no watch")
	}
	for id, isOpen := range open {
		if isOpen {
			return fmt.Errorf("watch %s is open", id)
		}
	}
	return nil
}
