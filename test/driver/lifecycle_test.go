package driver

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"

	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
	"github.com/liveconfig-csi/liveconfig/test/kit/expect"
	"github.com/liveconfig-csi/liveconfig/test/kit/fakekubelet"
	"github.com/liveconfig-csi/liveconfig/test/kit/fixture"
	"github.com/liveconfig-csi/liveconfig/test/kit/node"
)

// TestAKilledDriverProjectsWhatChangedWhileItWasAway is fault 19.
// A restart without a change writes nothing.
func TestAKilledDriverProjectsWhatChangedWhileItWasAway(t *testing.T) {
	t.Parallel()
	overOrigins(t, func(t *testing.T, b *rig) {
		t.Helper()
		pod := publish(b.Fixture, "web", "red")
		before := b.Generation(pod)
		b.Stop()
		b.WantFile(pod, "n", "red")
		b.Start()
		b.wantMore(foundUnchanged, 0)
		if after := b.Generation(pod); after != before {
			t.Errorf("generation %s became %s over a restart without a change", before, after)
		}
		for i := range 3 {
			b.Kill()
			color := fmt.Sprintf("green-%d", i)
			b.UpdateConfigMap("web", map[string]string{"n": color})
			b.Start()
			b.WantFile(pod, "n", color)
		}
		b.WantMounts(1, "after the restarts")
	})
}

func TestPublishWaitsForARequiredSource(t *testing.T) {
	t.Parallel()
	overOrigins(t, func(t *testing.T, b *rig) {
		t.Helper()
		pod := b.Pod("web", map[string]string{"configMap": "late"})
		published := make(chan error, 1)
		ctx := t.Context()
		go func() { published <- b.TryPublish(ctx, pod) }()
		b.WantEvent(pod, "WaitingForSource", `configmap "late" not found`)
		b.CreateConfigMap("late", map[string]string{"color": "red"})
		expect.NoError(t, <-published)
		b.WantFile(pod, "color", "red")
		b.Unpublish(pod)
	})
}

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

// TestPodsThatGoWhileNoDriverRuns (faults 13, 15 and 22): the kubelet unpublishes when the driver runs again, and until then the
// files stay. The driver does not manage a volume that was removed meanwhile.
func TestPodsThatGoWhileNoDriverRuns(t *testing.T) {
	t.Parallel()
	b := fixture.New(t)
	b.CreateConfigMap("web", map[string]string{"n": "1"})
	b.CreateConfigMap("own", map[string]string{"n": "1"})
	stays := b.Pod("stays", map[string]string{"configMap": "web"})
	goes := b.Pod("goes", map[string]string{"configMap": "web"})
	gone := b.Pod("gone", map[string]string{"configMap": "own"})
	for _, pod := range []*corev1.Pod{stays, goes, gone} {
		b.Publish(pod)
	}
	b.Stop()
	b.DeletePod("goes")
	b.DeletePod("gone")
	expect.NoError(t, unix.Unmount(b.Node.Target(gone, fixture.VolumeName), unix.MNT_DETACH))
	expect.NoError(t, os.RemoveAll(filepath.Join(b.Node.KubeletDir(), "pods", string(gone.UID))))
	if err := b.Holds(goes, "n", "1"); err != nil {
		t.Errorf("while no driver runs: %v", err)
	}

	b.Start()
	b.WantNumber("liveconfig_volumes", 2)
	b.WantNumber("liveconfig_watches", 1) // None for a volume that is gone.
	b.Unpublish(goes)
	b.WantNothing(goes, "unpublished by the next run")
	request := &csi.NodeUnpublishVolumeRequest{
		VolumeId: fakekubelet.VolumeID(gone, fixture.VolumeName), TargetPath: b.Node.Target(gone, fixture.VolumeName),
	}
	for range 2 {
		if _, err := b.Node.Node().NodeUnpublishVolume(t.Context(), request); err != nil {
			t.Errorf("unpublish of what has gone: %v", err)
		}
	}
	b.UpdateConfigMap("web", map[string]string{"n": "2"})
	b.WantFile(stays, "n", "2")
	b.WantNothing(goes, "after a change")
	b.WantMounts(1, "in the end")
	if records := recordsHeld(b); records != 1 {
		t.Errorf("%d records, want 1", records)
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

// TestOtherNamespacesNeedAnAPIServer: without one the driver cannot check that the owners of other namespaces consent.
func TestOtherNamespacesNeedAnAPIServer(t *testing.T) {
	t.Parallel()
	b := &rig{fixture.Without(t, "--publish-timeout=200ms")}
	writeFile(t, filepath.Join(b.Manifests, "ca.yaml"), "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: ca, namespace: certs}\ndata: {ca.crt: x}\n")
	pod := b.Pod("web", map[string]string{"configMap": "ca", "namespace": "certs"})
	b.WantRefusal(pod, codes.PermissionDenied,
		"configmap certs/ca: with --manifests a pod reads the objects of its own namespace only: no API server can check")
	b.WantNothing(pod, "after the refusal")
}

// TestManifestsAreWhatTheAPIServerTakes applies what we ship, as a dry run on the server.
func TestManifestsAreWhatTheAPIServerTakes(t *testing.T) {
	t.Parallel()
	c := environment.Cluster(t)
	repo, err := environment.Repo()
	expect.NoError(t, err)
	folder, err := environment.Folder(c)
	expect.NoError(t, err)
	folders := []string{folder}
	if folder == "base" { // What is for older clusters fits as well, and what changes something else of the base.
		folders = append(folders, "overlays/before-1.35", "overlays/driver-identity")
	}
	for _, folder := range folders {
		out, err := c.Kubectl(t.Context(), "apply", "--dry-run=server", "--validate=strict", "-k", filepath.Join(repo, "deploy", folder))
		if err != nil || !strings.Contains(out, "server dry run") {
			t.Errorf("kubectl apply of %s said %q, %v, want a server dry run", folder, out, err)
		}
	}
}

func recordsHeld(b *fixture.Fixture) int {
	b.T.Helper()
	files, err := filepath.Glob(filepath.Join(b.Node.StateDir(), "volumes", "*"))
	expect.NoError(b.T, err)
	return len(files)
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

// republishAfterRestart is what a kubelet does that has started: it publishes every volume of every pod, all at once.
func republishAfterRestart(b *fixture.Fixture, pods []*corev1.Pod) {
	b.T.Helper()
	k, err := fakekubelet.New(b.Node.KubeletDir(), node.DriverName, b.Node.Socket())
	expect.NoError(b.T, err)
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
