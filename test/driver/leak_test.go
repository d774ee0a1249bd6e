package driver

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
	"github.com/liveconfig-csi/liveconfig/test/kit/fakekubelet"
)

// TestNoSecretIsToldWhenThingsGoWrong takes a Secret through what can go wrong with it. That its bytes are nowhere but in
// the volume is looked at when the driver is stopped, as after every test. This is fault 28.
func TestNoSecretIsToldWhenThingsGoWrong(t *testing.T) {
	t.Parallel()
	for format, failed := range map[string]string{
		"text": `level=ERROR msg="Call failed"`,
		"json": `"level":"ERROR","msg":"Call failed"`,
	} {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			b := newRig(t, "--publish-timeout=200ms", "--log-format="+format)
			b.SetSecret("app", map[string]string{"a": "1"})
			pod := b.Pod("live", map[string]string{
				"sources": "[{secret: {name: app}}, {secret: {name: app, optional: true, items: [{key: b, path: c/b}]}}]",
			})
			b.Publish(pod)

			// What a publish is refused for.
			b.WantRefusal(b.Pod("no-key", map[string]string{"secret": "app", "items": "[{key: z, path: z}]"}),
				codes.FailedPrecondition, "references non-existent secret key: z")
			must(t, b.logged(failed))
			b.WantRefusal(b.Pod("conflict", map[string]string{
				"sources": "[{secret: {name: app}}, {secret: {name: app, items: [{key: a, path: a/a}]}}]",
			}), codes.InvalidArgument, "a/a")
			other := pod.DeepCopy()
			other.Spec.Volumes[0].CSI.VolumeAttributes = map[string]string{"secret": "app"}
			b.WantRefusal(other, codes.AlreadyExists, "already published")

			// What an update fails for: c cannot be a file beside c/b. Then the source is gone.
			b.SetSecret("app", map[string]string{"a": "2", "b": "2", "c": "2"})
			b.WantEvent(pod, "ProjectionFailed", "c")
			b.WantFile(pod, "a", "1")
			b.wantHealth(pod, "c")
			secrets := b.Cluster.Client().CoreV1().Secrets(b.Namespace)
			must(t, secrets.Delete(t.Context(), "app", metav1.DeleteOptions{}))
			b.WantEvent(pod, "SourceMissing", `secret "app" not found`)

			// A driver that dies of a signal writes down what all its threads are doing.
			must(t, unix.Kill(b.Node.PID(), unix.SIGQUIT))
			environment.Eventually(t, soon, func() error { return b.logged("\ngoroutine ") })
			b.Kill()
			b.Start()
			b.SetSecret("app", map[string]string{"a": "3"})
			b.WantFile(pod, "a", "3")
		})
	}
}

// wantHealth wants the volume to be unwell with a message that holds the text, and that what is said about it contains no
// secret.
func (b *rig) wantHealth(pod *corev1.Pod, text string) {
	b.T.Helper()
	id := fakekubelet.VolumeID(pod, "config")
	health, err := b.Node.Node().NodeGetVolumeHealth(b.T.Context(), &csi.NodeGetVolumeHealthRequest{VolumeId: id})
	if b.Heard(err) != nil || !strings.Contains(fmt.Sprint(health), text) {
		b.T.Errorf("the volume's health is %v, %v, want %q in it", health, err, text)
	}
	stats, err := b.Node.Node().NodeGetVolumeStats(b.T.Context(),
		&csi.NodeGetVolumeStatsRequest{VolumeId: id, VolumePath: b.Node.Target(pod, "config")})
	if b.Heard(err) != nil {
		b.T.Errorf("statistics: %v", err)
	}
	for _, message := range []proto.Message{health, stats} {
		wire, err := proto.Marshal(message)
		must(b.T, err)
		if err := environment.Leak(wire); err != nil {
			b.T.Errorf("%T: %v", message, err)
		}
	}
}

// logged returns an error unless the driver's log holds the text.
func (b *rig) logged(text string) error {
	log, err := os.ReadFile(b.Node.LogFile())
	if err == nil && !strings.Contains(string(log), text) {
		err = fmt.Errorf("the log does not hold %q", text)
	}
	return err
}
