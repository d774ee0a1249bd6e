package driver

import (
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
	"github.com/liveconfig-csi/liveconfig/test/kit/fixture"
)

// TestARestartTellsNothingTwice: a driver that is restarted while something is wrong (fault 19) finds its Event of the run
// before and makes it new again, with no more rights than to create and patch.
func TestARestartTellsNothingTwice(t *testing.T) {
	t.Parallel()
	b := fixture.New(t)
	pod := publish(b, "web", "red")
	b.DeleteConfigMap("web")
	b.WantEvent(pod, "SourceMissing", "not found")
	last := only(b, pod, "SourceMissing").LastTimestamp
	for range 2 {
		<-time.After(1100 * time.Millisecond) // Events have whole seconds.
		b.Kill()
		b.Start()
		environment.Eventually(t, fixture.Soon, func() error {
			if e := only(b, pod, "SourceMissing"); !e.LastTimestamp.After(last.Time) {
				return errors.New("the next run has not reported it yet")
			}
			return nil
		})
		last = only(b, pod, "SourceMissing").LastTimestamp
	}
	b.CreateConfigMap("web", map[string]string{"n": "green"})
	b.WantEvent(pod, "Projected", "the files are current again")
}

// only returns the one Event with the reason on the pod.
func only(b *fixture.Fixture, pod *corev1.Pod, reason string) corev1.Event {
	b.T.Helper()
	events, err := b.Cluster.Client().CoreV1().Events(b.Namespace).List(b.T.Context(),
		metav1.ListOptions{FieldSelector: fmt.Sprintf("involvedObject.uid=%s,reason=%s", pod.UID, reason)})
	must(b.T, err)
	if len(events.Items) != 1 {
		b.T.Fatalf("%d Events say %s, want one: %v", len(events.Items), reason, events.Items)
	}
	return events.Items[0]
}
