package driver

import (
	"context"
	"fmt"
	"math"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
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

// TestParallelPublishesOfOneVolume (fault 18): the first one waits for its source; a call that comes meanwhile is refused and
// does not wait. Nothing piles up: not of those that are turned away, and not of those whose caller gives up.
func TestParallelPublishesOfOneVolume(t *testing.T) {
	t.Parallel()
	b := fixture.New(t, "--publish-timeout=10m")
	const goroutines = "go_goroutines"
	pod := b.Pod("web", map[string]string{"configMap": "late"})
	base := b.Number(goroutines)
	for range 20 { // A kubelet that gives up, and comes again.
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
		if code := status.Code(b.TryPublish(ctx, pod)); code == codes.OK {
			t.Fatal("publish succeeds without its source")
		}
		cancel()
	}
	b.WantNumber("liveconfig_volumes", 0)
	first := make(chan error, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 3*fixture.Soon)
	defer cancel()
	go func() { first <- publishPastAborted(ctx, b, pod) }()
	b.WantNumber("liveconfig_volumes", 1)
	answers := publishAtOnce(b, pod, 64)
	if answers[codes.Aborted] != 64 {
		t.Errorf("64 publishes beside one that waits gave %v, want Aborted", answers)
	}
	environment.Eventually(t, fixture.Soon, func() error {
		if now := b.Number(goroutines); now > base+15 { // A connection, a watch, and the one call that waits.
			return fmt.Errorf("%v goroutines with one publish that waits, after %v without", now, base)
		}
		return nil
	})
	b.CreateConfigMap("late", map[string]string{"n": "1"})
	must(t, <-first)
	b.WantFile(pod, "n", "1")

	answers = publishAtOnce(b, pod, 64) // Repeats now.
	if answers[codes.OK] == 0 || answers[codes.OK]+answers[codes.Aborted] != 64 {
		t.Errorf("64 repeats at once gave %v, want OK or Aborted", answers)
	}
	b.WantMounts(1, "after many publishes at once")
	b.Unpublish(pod)
	environment.Eventually(t, fixture.Soon, func() error {
		if now := b.Number(goroutines); math.Abs(now-base) > 10 {
			return fmt.Errorf("%v goroutines in the end, after %v at the beginning", now, base)
		}
		return nil
	})
}

// publishPastAborted publishes, and again when an earlier call for the volume has not ended yet.
func publishPastAborted(ctx context.Context, b *fixture.Fixture, pod *corev1.Pod) error {
	for {
		err := b.TryPublish(ctx, pod)
		if status.Code(err) != codes.Aborted || ctx.Err() != nil {
			return err
		}
	}
}

// publishAtOnce publishes the pod's volume so many times in parallel and counts the answers.
func publishAtOnce(b *fixture.Fixture, pod *corev1.Pod, times int) map[codes.Code]int {
	b.T.Helper()
	ctx, cancel := context.WithTimeout(b.T.Context(), fixture.Soon)
	defer cancel()
	answers := make(chan codes.Code, times)
	for range times {
		go func() { answers <- status.Code(b.TryPublish(ctx, pod)) }()
	}
	count := map[codes.Code]int{}
	for range times {
		count[<-answers]++
	}
	return count
}

// TestALostMountWhosePublishIsRefused (faults 11, 15 and 16): somebody unmounts a live volume, and the kubelet's repeat,
// which would make it again, is refused because the source is gone too. That leaves nothing half-made and nothing that is
// managed for ever; a container that runs keeps what it has; and when the source is back, so is the volume.
func TestALostMountWhosePublishIsRefused(t *testing.T) {
	t.Parallel()
	b := fixture.New(t, "--publish-timeout=200ms")
	pod := publish(b, "web", "1")
	container := openDir(t, b.Path(pod, "."))
	unmount(t, b.Node.Target(pod, fixture.VolumeName))
	b.UpdateConfigMap("web", map[string]string{"n": "2"}) // Its update fails, and is tried again.
	b.DeleteConfigMap("web")
	for range 3 {
		b.WantRefusal(pod, codes.FailedPrecondition, `configmap "web" not found`)
		b.WantMounts(0, "after a publish that was refused")
		b.WantNumber("liveconfig_volumes", 0)
		b.WantNumber("liveconfig_watches", 0)
		if records := recordsHeld(b); records != 0 {
			t.Errorf("%d records, want none", records)
		}
	}
	wantIn(t, container, "n", "1")
	b.CreateConfigMap("web", map[string]string{"n": "3"})
	must(t, b.TryPublish(t.Context(), pod))
	b.UpdateConfigMap("web", map[string]string{"n": "4"})
	b.WantFile(pod, "n", "4")
	b.WantMounts(1, "in the end")
}
