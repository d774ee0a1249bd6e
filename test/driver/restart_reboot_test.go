package driver

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/liveconfig-csi/liveconfig/test/kit/fakekubelet"
	"github.com/liveconfig-csi/liveconfig/test/kit/fixture"
)

// unmount takes away what is mounted at the targets, as a reboot or an administrator does.
func unmount(t testing.TB, targets ...string) {
	t.Helper()
	for _, target := range targets {
		if err := unix.Unmount(target, unix.MNT_DETACH); err != nil {
			t.Fatalf("unmount %s: %v", target, err)
		}
	}
}

func recordsHeld(b *fixture.Fixture) int {
	b.T.Helper()
	files, err := filepath.Glob(filepath.Join(b.Node.StateDir(), "volumes", "*"))
	must(b.T, err)
	return len(files)
}

// TestPodsThatGoWhileNoDriverRuns (faults 13, 15 and 22): the kubelet's unpublish comes when the driver is back. Until
// then the files are where they were, and what somebody else has cleared away is not managed for ever.
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
	unmount(t, b.Node.Target(gone, fixture.VolumeName))
	must(t, os.RemoveAll(filepath.Join(b.Node.KubeletDir(), "pods", string(gone.UID))))
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
