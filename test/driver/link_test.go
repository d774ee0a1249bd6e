package driver

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
	"github.com/liveconfig-csi/liveconfig/test/kit/expect"
	"github.com/liveconfig-csi/liveconfig/test/kit/fixture"
)

// TestTheKubeletsDirectoryIsALink: its disk is elsewhere, and both kubelet and driver know the link alone. Volumes live
// through a restart, and nothing stays of them at either path.
func TestTheKubeletsDirectoryIsALink(t *testing.T) {
	t.Parallel()
	b := fixture.BareWithout(t)
	disk := t.TempDir()
	b.Node = environment.NodeLinkedWithout(t, b.Manifests, disk, "--http-endpoint="+b.HTTP)
	b.CreateConfigMap("web", map[string]string{"n": "1"})
	first := b.Pod("first", map[string]string{"configMap": "web"})
	alike := b.Pod("alike", map[string]string{"configMap": "web"})
	b.Publish(first)
	b.Publish(alike)
	b.WantFile(alike, "n", "1")
	if mounts := environment.Mounts(t, disk); len(mounts) != 2 {
		t.Errorf("mounts on the disk: %q, want 2", mounts)
	}

	b.Kill()
	b.UpdateConfigMap("web", map[string]string{"n": "2"})
	b.Start()
	b.WantFile(first, "n", "2")
	b.Publish(first) // A kubelet repeats it.
	b.UpdateConfigMap("web", map[string]string{"n": "3"})
	b.WantFile(alike, "n", "3")
	for _, target := range []string{b.Node.Target(first, fixture.VolumeName), b.Node.Target(alike, fixture.VolumeName)} {
		if !strings.HasPrefix(target, b.Node.KubeletDir()) {
			t.Errorf("the kubelet's path is %s, want one through the link", target)
		}
	}
	b.Unpublish(first)
	b.Unpublish(alike)
	if mounts := environment.Mounts(t, disk); len(mounts) > 0 {
		t.Errorf("mounts left on the disk: %q", mounts)
	}
}

// TestThePodsDirectoryIsALink: in the container, its target does not exist, so the driver does not start, and prints what
// to type.
func TestThePodsDirectoryIsALink(t *testing.T) {
	t.Parallel()
	b := fixture.Without(t)
	b.Stop()
	disk, pods := t.TempDir(), filepath.Join(b.Node.KubeletDir(), "pods")
	expect.NoError(t, os.Symlink(disk, pods))
	err := b.Node.StartDriver(t.Context())
	want := pods + " is a symbolic link to " + disk + ", which is not followed: remove it, or have a bind mount in its place"
	if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "chart's value kubeletDir") {
		t.Errorf("StartDriver = %v, want %q", err, want)
	}
	expect.NoError(t, os.Remove(pods))
	b.Start()
}
