package integration

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"

	"github.com/liveconfig-csi/liveconfig/test/kit/kubelet"
	"github.com/liveconfig-csi/liveconfig/test/kit/lab"
)

func TestAKilledDriverProjectsWhatChangedWhileItWasAway(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.createConfigMap("web", map[string]string{"color": "red"})
	pod := b.pod("web", map[string]string{"configMap": "web"})
	b.publish(pod)
	for i := range 3 {
		if err := b.node.Kill(); err != nil {
			t.Fatal(err)
		}
		color := fmt.Sprintf("green-%d", i)
		b.updateConfigMap("web", map[string]string{"color": color})
		if err := b.node.StartDriver(t.Context()); err != nil {
			t.Fatal(err)
		}
		b.wantFile(pod, "color", color)
	}
	if mounts := lab.Mounts(t, b.node.KubeletDir()); len(mounts) != 1 {
		t.Errorf("%d mounts after three restarts, want 1:\n%s", len(mounts), strings.Join(mounts, ""))
	}
}

func TestARestartedDriverKeepsAGenerationThatIsStillRight(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.createConfigMap("web", map[string]string{"color": "red"})
	pod := b.pod("web", map[string]string{"configMap": "web"})
	b.publish(pod)
	before := b.generation(pod)
	if err := b.node.StopDriver(); err != nil {
		t.Fatal(err)
	}
	b.wantFile(pod, "color", "red")
	if err := b.node.StartDriver(t.Context()); err != nil {
		t.Fatal(err)
	}
	lab.Eventually(t, soon, func() error {
		if got := b.metric(`liveconfig_syncs_total{result="unchanged"}`); got == "" {
			return errors.New("the volume has not been synced yet")
		}
		return nil
	})
	if after := b.generation(pod); after != before {
		t.Errorf("generation %s became %s over a restart without a change", before, after)
	}
}

func TestALiveVolumeOutlivesTheLossOfItsRecord(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.createConfigMap("web", map[string]string{"color": "red"})
	pod := b.pod("web", map[string]string{"configMap": "web"})
	b.publish(pod)
	before := b.generation(pod)
	if err := b.node.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(b.node.StateDir()); err != nil {
		t.Fatal(err)
	}
	if err := b.node.StartDriver(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := b.node.PublishAll(t.Context(), pod); err != nil {
		t.Fatalf("republish after the record was lost: %v", err)
	}
	if after := b.generation(pod); after != before {
		t.Errorf("generation %s became %s, want the live content adopted", before, after)
	}
	b.updateConfigMap("web", map[string]string{"color": "green"})
	b.wantFile(pod, "color", "green")
}

func TestRepublishOfALiveVolumeAlwaysSucceeds(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.createConfigMap("web", map[string]string{"color": "red"})
	pod := b.pod("web", map[string]string{"configMap": "web"})
	b.publish(pod)
	b.deleteConfigMap("web") // Even so.
	for range 50 {
		if err := b.node.PublishAll(t.Context(), pod); err != nil {
			t.Fatalf("republish: %v", err)
		}
	}
	if mounts := lab.Mounts(t, b.node.KubeletDir()); len(mounts) != 1 {
		t.Errorf("%d mounts after 50 repeats, want 1", len(mounts))
	}
	b.wantFile(pod, "color", "red")

	other := pod.DeepCopy()
	other.Spec.Volumes[0].CSI.VolumeAttributes = map[string]string{"configMap": "other"}
	b.wantRefusal(other, codes.AlreadyExists, "already published")
	b.wantFile(pod, "color", "red")
}

func TestPublishWaitsForARequiredSource(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	pod := b.pod("web", map[string]string{"configMap": "late"})
	published := make(chan error, 1)
	ctx := t.Context()
	go func() { published <- b.node.PublishAll(ctx, pod) }()
	b.wantEvent(pod, "WaitingForSource", `configmap "late" not found`)
	b.createConfigMap("late", map[string]string{"color": "red"})
	if err := <-published; err != nil {
		t.Fatal(err)
	}
	b.wantFile(pod, "color", "red")
	b.unpublish(pod)
}

func TestPublishGivesUpOnAMissingSource(t *testing.T) {
	t.Parallel()
	b := newBench(t, "--publish-timeout=200ms")
	b.createConfigMap("partial", map[string]string{"a": "1"})
	for name, tt := range map[string]struct {
		attributes map[string]string
		want       string
	}{
		"object": {map[string]string{"configMap": "x"}, `configmap "x" not found`},
		"secret": {map[string]string{"secret": "x"}, `secret "x" not found`},
		"key":    {map[string]string{"configMap": "partial", "items": "[{key: b, path: b}]"}, "configmap references non-existent config key: b"},
		"all at once": {
			map[string]string{"sources": "[{configMap: {name: x}}, {secret: {name: z}}]"},
			`[configmap "x" not found, secret "z" not found]`,
		},
	} {
		pod := b.pod("web", tt.attributes)
		b.wantRefusal(pod, codes.FailedPrecondition, tt.want)
		b.wantNothing(pod, name)
	}
	if got := b.metric("liveconfig_watches"); got != "0" {
		t.Errorf("%s watches are left behind, want 0", got)
	}
}

func TestWhatIsWrongIsRefusedBeforeAnythingIsTouched(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.createConfigMap("web", map[string]string{"color": "red"})
	for name, tt := range map[string]struct {
		change func(*corev1.Volume)
		code   codes.Code
		want   string
	}{
		"every mistake in the attributes": {
			func(v *corev1.Volume) {
				v.CSI.VolumeAttributes = map[string]string{"configmap": "web", "defaultMode": "0999", "uid": "-1"}
			}, codes.InvalidArgument, "defaultMode",
		},
		"not read-only": {func(v *corev1.Volume) { v.CSI.ReadOnly = nil }, codes.InvalidArgument, `add "readOnly: true"`},
		"another namespace": {
			func(v *corev1.Volume) { v.CSI.VolumeAttributes["namespace"] = "kube-system" },
			codes.PermissionDenied, "may not read configmap kube-system/web",
		},
	} {
		pod := b.pod("web", map[string]string{"configMap": "web"})
		tt.change(&pod.Spec.Volumes[0])
		b.wantRefusal(pod, tt.code, tt.want)
		b.wantNothing(pod, name)
	}
}

func TestUnpublishOfWhatIsNotThereSucceeds(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.createConfigMap("web", map[string]string{"color": "red"})
	pod := b.pod("web", map[string]string{"configMap": "web"})
	req := &csi.NodeUnpublishVolumeRequest{VolumeId: kubelet.VolumeID(pod, "config"), TargetPath: b.node.Target(pod, "config")}
	if _, err := b.node.Node().NodeUnpublishVolume(t.Context(), req); err != nil {
		t.Errorf("unpublish of a volume that never was: %v", err)
	}
	b.publish(pod)
	for range 2 {
		if _, err := b.node.Node().NodeUnpublishVolume(t.Context(), req); err != nil {
			t.Errorf("unpublish: %v", err)
		}
	}
	b.updateConfigMap("web", map[string]string{"color": "green"}) // Nothing comes back.
	b.wantNothing(pod, "after unpublish")
	if got := b.metric("liveconfig_watches"); got != "0" {
		t.Errorf("%s watches are left behind, want 0", got)
	}
}

func TestFilesStayWhileTheAPIServerIsAway(t *testing.T) {
	b := newBench(t) // Not parallel: the API server is everybody's.
	b.createConfigMap("web", map[string]string{"color": "red"})
	pod := b.pod("web", map[string]string{"configMap": "web"})
	b.publish(pod)
	if err := b.cluster.KillAPIServer(); err != nil {
		t.Fatal(err)
	}
	if err := b.node.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := b.node.StartDriver(t.Context()); err != nil {
		t.Errorf("start without an API server: %v", err)
	}
	if err := b.node.PublishAll(t.Context(), pod); err != nil {
		t.Errorf("republish without an API server: %v", err)
	}
	b.wantFile(pod, "color", "red")
	if err := b.cluster.StartAPIServer(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
	b.updateConfigMap("web", map[string]string{"color": "green"})
	b.wantFile(pod, "color", "green")
}

// wantRefusal publishes the pod's volume and wants the code and the text.
func (b *bench) wantRefusal(pod *corev1.Pod, code codes.Code, text string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), time.Minute)
	defer cancel()
	err := b.node.Publish(ctx, pod, pod.Spec.Volumes[0])
	if status.Code(err) != code || !strings.Contains(err.Error(), text) {
		b.t.Errorf("publish gave %v, want %s with %q", err, code, text)
	}
}

// wantNothing wants no mount and no target directory for the pod's volume.
func (b *bench) wantNothing(pod *corev1.Pod, when string) {
	b.t.Helper()
	target := b.node.Target(pod, "config")
	if mounts := lab.Mounts(b.t, target); len(mounts) > 0 {
		b.t.Errorf("%s: mounts at %s: %q", when, target, mounts)
	}
	if _, err := os.Lstat(target); !errors.Is(err, os.ErrNotExist) {
		b.t.Errorf("%s: the target path is there (%v)", when, err)
	}
}
