package driver

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"

	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
	"github.com/liveconfig-csi/liveconfig/test/kit/fakekubelet"
)

// TestAKilledDriverProjectsWhatChangedWhileItWasAway is fault 19.
func TestAKilledDriverProjectsWhatChangedWhileItWasAway(t *testing.T) {
	t.Parallel()
	for name, newRig := range origins() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newRig(t)
			b.CreateConfigMap("web", map[string]string{"color": "red"})
			pod := b.Pod("web", map[string]string{"configMap": "web"})
			b.Publish(pod)
			for i := range 3 {
				if err := b.Node.Kill(); err != nil {
					t.Fatal(err)
				}
				color := fmt.Sprintf("green-%d", i)
				b.UpdateConfigMap("web", map[string]string{"color": color})
				if err := b.Node.StartDriver(t.Context()); err != nil {
					t.Fatal(err)
				}
				b.WantFile(pod, "color", color)
			}
			if mounts := environment.Mounts(t, b.Node.KubeletDir()); len(mounts) != 1 {
				t.Errorf("%d mounts after three restarts, want 1:\n%s", len(mounts), strings.Join(mounts, ""))
			}
		})
	}
}

func TestARestartedDriverKeepsAGenerationThatIsStillRight(t *testing.T) {
	t.Parallel()
	for name, newRig := range origins() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newRig(t)
			b.CreateConfigMap("web", map[string]string{"color": "red"})
			pod := b.Pod("web", map[string]string{"configMap": "web"})
			b.Publish(pod)
			before := b.Generation(pod)
			if err := b.Node.StopDriver(); err != nil {
				t.Fatal(err)
			}
			b.WantFile(pod, "color", "red")
			if err := b.Node.StartDriver(t.Context()); err != nil {
				t.Fatal(err)
			}
			b.wantMore(foundUnchanged, 0)
			if after := b.Generation(pod); after != before {
				t.Errorf("generation %s became %s over a restart without a change", before, after)
			}
		})
	}
}

// TestADriverWithoutItsAddressTouchesNothing: where somebody else listens, it ends before it takes over a volume, with an edit
// to be made in it.
func TestADriverWithoutItsAddressTouchesNothing(t *testing.T) {
	t.Parallel()
	b := newRig(t)
	b.CreateConfigMap("web", map[string]string{"color": "red"})
	pod := b.Pod("web", map[string]string{"configMap": "web"})
	b.Publish(pod)
	if err := b.Node.Kill(); err != nil {
		t.Fatal(err)
	}
	before := b.listing()
	other, err := new(net.ListenConfig).Listen(t.Context(), "tcp", b.HTTP)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	b.UpdateConfigMap("web", map[string]string{"color": "blue"})
	if err := b.Node.StartDriver(t.Context()); err == nil || !strings.Contains(err.Error(), "listen on "+b.HTTP+" for HTTP: ") {
		t.Errorf("StartDriver = %v, want it to say that the address is taken", err)
	}
	b.wantUnchanged(before, "after a start without the address")
	b.WantFile(pod, "color", "red")

	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	if err := b.Node.StartDriver(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.WantFile(pod, "color", "blue")
}

// TestALiveVolumeOutlivesTheLossOfItsRecord is fault 20.
func TestALiveVolumeOutlivesTheLossOfItsRecord(t *testing.T) {
	t.Parallel()
	for name, newRig := range origins() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newRig(t)
			b.CreateConfigMap("web", map[string]string{"color": "red"})
			pod := b.Pod("web", map[string]string{"configMap": "web"})
			b.Publish(pod)
			before := b.Generation(pod)
			if err := b.Node.Kill(); err != nil {
				t.Fatal(err)
			}
			if err := os.RemoveAll(b.Node.StateDir()); err != nil {
				t.Fatal(err)
			}
			if err := b.Node.StartDriver(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := b.TryPublish(t.Context(), pod); err != nil {
				t.Fatalf("republish after the record was lost: %v", err)
			}
			if after := b.Generation(pod); after != before {
				t.Errorf("generation %s became %s, want the live content adopted", before, after)
			}
			b.UpdateConfigMap("web", map[string]string{"color": "green"})
			b.WantFile(pod, "color", "green")
		})
	}
}

// TestRepublishOfALiveVolumeAlwaysSucceeds proves faults 11 and 12.
func TestRepublishOfALiveVolumeAlwaysSucceeds(t *testing.T) {
	t.Parallel()
	for name, newRig := range origins() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newRig(t)
			b.CreateConfigMap("web", map[string]string{"color": "red"})
			pod := b.Pod("web", map[string]string{"configMap": "web"})
			b.Publish(pod)
			b.DeleteConfigMap("web") // Even so.
			for range 50 {
				if err := b.TryPublish(t.Context(), pod); err != nil {
					t.Fatalf("republish: %v", err)
				}
			}
			if mounts := environment.Mounts(t, b.Node.KubeletDir()); len(mounts) != 1 {
				t.Errorf("%d mounts after 50 repeats, want 1", len(mounts))
			}
			b.WantFile(pod, "color", "red")

			other := pod.DeepCopy()
			other.Spec.Volumes[0].CSI.VolumeAttributes = map[string]string{"configMap": "other"}
			b.WantRefusal(other, codes.AlreadyExists, "already published")
			b.WantFile(pod, "color", "red")
		})
	}
}

func TestPublishWaitsForARequiredSource(t *testing.T) {
	t.Parallel()
	for name, newRig := range origins() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newRig(t)
			pod := b.Pod("web", map[string]string{"configMap": "late"})
			published := make(chan error, 1)
			ctx := t.Context()
			go func() { published <- b.TryPublish(ctx, pod) }()
			b.WantEvent(pod, "WaitingForSource", `configmap "late" not found`)
			b.CreateConfigMap("late", map[string]string{"color": "red"})
			if err := <-published; err != nil {
				t.Fatal(err)
			}
			b.WantFile(pod, "color", "red")
			b.Unpublish(pod)
		})
	}
}

// TestPublishGivesUpOnAMissingSource is fault 15.
func TestPublishGivesUpOnAMissingSource(t *testing.T) {
	t.Parallel()
	for name, newRig := range origins() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newRig(t, "--publish-timeout=200ms")
			b.CreateConfigMap("partial", map[string]string{"a": "1"})
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
				pod := b.Pod("web", tt.attributes)
				b.WantRefusal(pod, codes.FailedPrecondition, tt.want)
				b.WantNothing(pod, name)
			}
			if got := b.Metric("liveconfig_watches"); b.Cluster != nil && got != "0" {
				t.Errorf("%s watches are left behind, want 0", got)
			}
		})
	}
}

func TestWhatIsWrongIsRefusedBeforeAnythingIsTouched(t *testing.T) {
	t.Parallel()
	b := newRig(t)
	b.CreateConfigMap("web", map[string]string{"color": "red"})
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
			codes.PermissionDenied, "configmap kube-system/web cannot be read",
		},
	} {
		pod := b.Pod("web", map[string]string{"configMap": "web"})
		tt.change(&pod.Spec.Volumes[0])
		b.WantRefusal(pod, tt.code, tt.want)
		b.WantNothing(pod, name)
	}
}

// TestUnpublishOfWhatIsNotThereSucceeds is fault 13.
func TestUnpublishOfWhatIsNotThereSucceeds(t *testing.T) {
	t.Parallel()
	for name, newRig := range origins() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newRig(t)
			b.CreateConfigMap("web", map[string]string{"color": "red"})
			pod := b.Pod("web", map[string]string{"configMap": "web"})
			req := &csi.NodeUnpublishVolumeRequest{VolumeId: fakekubelet.VolumeID(pod, "config"), TargetPath: b.Node.Target(pod, "config")}
			if _, err := b.Node.Node().NodeUnpublishVolume(t.Context(), req); err != nil {
				t.Errorf("unpublish of a volume that never was: %v", err)
			}
			b.Publish(pod)
			for range 2 {
				if _, err := b.Node.Node().NodeUnpublishVolume(t.Context(), req); err != nil {
					t.Errorf("unpublish: %v", err)
				}
			}
			b.UpdateConfigMap("web", map[string]string{"color": "green"}) // Nothing comes back.
			b.WantNothing(pod, "after unpublish")
			if got := b.Metric("liveconfig_watches"); b.Cluster != nil && got != "0" {
				t.Errorf("%s watches are left behind, want 0", got)
			}
		})
	}
}

func TestFilesStayWhileTheAPIServerIsAway(t *testing.T) {
	b := newRig(t) // Not parallel: the API server is everybody's.
	b.CreateConfigMap("web", map[string]string{"color": "red"})
	pod := b.Pod("web", map[string]string{"configMap": "web"})
	b.Publish(pod)
	if err := b.Cluster.KillAPIServer(); err != nil {
		t.Fatal(err)
	}
	if err := b.Node.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := b.Node.StartDriver(t.Context()); err != nil {
		t.Errorf("start without an API server: %v", err)
	}
	if err := b.TryPublish(t.Context(), pod); err != nil {
		t.Errorf("republish without an API server: %v", err)
	}
	b.WantFile(pod, "color", "red")
	if err := b.Cluster.StartAPIServer(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
	b.UpdateConfigMap("web", map[string]string{"color": "green"})
	b.WantFile(pod, "color", "green")
}
